# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The section ``authentication`` of an access policy. Pure."""

import math
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from deployments.access.keys import PREFIX, read_hash
from deployments.access.patterns import Patterns
from deployments.access.policy import (
    ALGORITHMS,
    ApiKeyRules,
    CertificateRule,
    Identity,
    Issuer,
    Scrypt,
    StoredKey,
    UnixRule,
)
from deployments.access.reading import Item, fields_of, optional, required, texts_of

# Each look at an unknown credential costs tens of milliseconds for each of them.
_MOST_CHOSEN: Final = 8
_IDENTITY: Final = ("subject", "tenant", "groups")
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_RESERVED_HEADERS: Final = ("authorization", "host", "content-length", "transfer-encoding")
_NAME_KINDS: Final = ("dns", "uri", "email", "cn")
_MAX_ID: Final = 2**32 - 2
_DAY_S: Final = 86_400.0


def read_identity(fields: dict[str, Item], subject: str) -> Identity:
    """Return whom an entry stands for.

    Args:
        fields: The entry's.
        subject: The default.
    """
    return Identity(
        optional(fields, "subject", lambda item: item.text(256), subject),
        optional(fields, "tenant", lambda item: item.text(128), ""),
        frozenset(texts_of(fields, "groups", 256)),
    )


def read_anonymous(item: Item) -> Identity:
    """Return whom requests without credentials stand for."""
    return read_identity(item.fields(("tenant", "groups")), "anonymous")


def read_api_keys(item: Item) -> ApiKeyRules:
    """Return how API keys come and where they are kept."""
    fields = item.fields(("headers", "bearer_prefix", "keys", "file", "directory"))
    if not {"keys", "file", "directory"} & fields.keys():
        raise item.error("there are no keys", "give 'keys', 'file' or 'directory'")
    headers: tuple[str, ...] = ("x-api-key",)
    if "headers" in fields:
        headers = tuple(_header(each) for each in fields["headers"].one_or_more())
    prefix = PREFIX
    if "bearer_prefix" in fields and fields["bearer_prefix"].value != "":
        prefix = fields["bearer_prefix"].text(64)
    elif "bearer_prefix" in fields:
        prefix = ""
    return ApiKeyRules(
        headers,
        prefix,
        read_keys(fields["keys"]) if "keys" in fields else (),
        texts_of(fields, "file", 4096),
        texts_of(fields, "directory", 4096),
    )


def _header(item: Item) -> str:
    name = item.text(128).lower()
    if not _HEADER.fullmatch(name) or name in _RESERVED_HEADERS:
        raise item.wrong(
            "the name of a header of your own", "'Authorization: Bearer' is looked at anyway"
        )
    return name


def read_keys(item: Item) -> tuple[StoredKey, ...]:
    """Return the entries of API keys: a list, or a single one.

    Raises:
        PolicyError: One of them is wrong.
    """
    entries = [item] if isinstance(item.value, dict) else item.items()
    keys = tuple(_key(entry) for entry in entries)
    check_chosen(item, keys)
    return keys


def check_chosen(item: Item, keys: Sequence[StoredKey]) -> None:
    """Refuse more chosen keys than can be looked at.

    Raises:
        PolicyError: There are.
    """
    count = sum(key.scrypt is not None for key in keys)
    if count > _MOST_CHOSEN:
        raise item.error(
            f"{count} keys are hashed with scrypt, expected at most {_MOST_CHOSEN}",
            "make random keys with 'manta policy new-key'",
        )


def _key(item: Item) -> StoredKey:
    fields = item.fields((*_IDENTITY, "hash", "expires", "revoked"))
    required(item, fields, "subject", "say whom the key stands for")
    stored = required(item, fields, "hash", "make it with 'manta policy new-key SUBJECT'")
    try:
        # Not shown where it is wrong: it may be the key itself.
        found = read_hash(stored.text())
    except ValueError as error:
        raise stored.error(
            f"the hash of a key is wrong, expected {error}", "make it with 'manta policy hash'"
        ) from None
    return StoredKey(
        read_identity(fields, ""),
        b"" if isinstance(found, Scrypt) else found,
        found if isinstance(found, Scrypt) else None,
        optional(fields, "expires", Item.time_s, math.inf),
        optional(fields, "revoked", Item.flag, default=False),
    )


def read_issuers(item: Item) -> tuple[Issuer, ...]:
    """Return whose tokens are taken."""
    issuers = tuple(_issuer(entry) for entry in item.items())
    seen: set[str] = set()
    for issuer, entry in zip(issuers, item.items(), strict=True):
        if issuer.issuer in seen:
            raise entry.error(
                f"issuer '{issuer.issuer}' stands twice", "list all audiences in one entry"
            )
        seen.add(issuer.issuer)
    return issuers


def _issuer(item: Item) -> Issuer:
    fields = item.fields(
        (
            *("issuer", "audience", "algorithms", "jwks_file", "jwks_url", "discovery"),
            *("refresh_s", "least_refresh_s", "clock_skew_s", "claims", "groups"),
            "subject_prefix",
        )
    )
    issuer = required(item, fields, "issuer", "say what 'iss' of the tokens is").text()
    audience = required(item, fields, "audience", "say what 'aud' of the tokens has to name")
    claims = fields_of(fields, "claims", ("subject", "tenant", "groups"))
    is_discovered = optional(fields, "discovery", Item.flag, default=False)
    sources = [name for name in ("jwks_file", "jwks_url") if name in fields]
    if len(sources) + is_discovered != 1:
        raise item.error(
            f"got {len(sources) + is_discovered} sources of the issuer's keys, expected one",
            "give 'jwks_file', 'jwks_url' or 'discovery: true'",
        )
    if is_discovered:
        _url(fields["issuer"])
    return Issuer(
        issuer,
        audience.texts(),
        optional(fields, "algorithms", _algorithms, ("RS256", "ES256")),
        optional(fields, "jwks_file", lambda given: given.text(4096), ""),
        optional(fields, "jwks_url", _url, ""),
        is_discovered,
        optional(fields, "refresh_s", lambda given: given.number(1, _DAY_S), 300.0),
        optional(fields, "least_refresh_s", lambda given: given.number(1, _DAY_S), 10.0),
        optional(fields, "clock_skew_s", lambda given: given.number(0, 600), 30.0),
        optional(claims, "subject", Item.text, "sub"),
        optional(claims, "tenant", Item.text, ""),
        optional(claims, "groups", Item.text, ""),
        frozenset(texts_of(fields, "groups", 256)),
        optional(fields, "subject_prefix", lambda given: given.text(64), ""),
    )


def _algorithms(item: Item) -> tuple[str, ...]:
    return tuple(each.choice(ALGORITHMS, "algorithm") for each in item.one_or_more())


def _url(item: Item) -> str:
    text = item.text(2048)
    try:
        parts = urlsplit(text)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
        is_sound = is_sound and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound:
        # Not shown: somebody may have put a password into it.
        raise item.error("expected a URL http(s)://<host>/<path> without user and password")
    return text


def read_certificates(item: Item) -> tuple[CertificateRule, ...]:
    """Return whom certificates stand for."""
    return tuple(_certificate(entry) for entry in item.items())


def _certificate(item: Item) -> CertificateRule:
    fields = item.fields(("san", *_IDENTITY))
    name = required(item, fields, "san", "say which certificates it is about")
    kind, _, pattern = name.text().partition(":")
    if kind not in _NAME_KINDS or not pattern:
        raise name.wrong(
            "dns:<pattern>, uri:<pattern>, email:<pattern> or cn:<pattern>",
            "for example 'uri:spiffe://example.org/ns/*/sa/*'",
        )
    is_caseless = kind in ("dns", "email")
    patterns = Patterns((pattern.lower() if is_caseless else pattern,))
    return CertificateRule(kind, patterns, read_identity(fields, ""))


def read_unix_peers(item: Item) -> tuple[UnixRule, ...]:
    """Return whom users of this machine stand for."""
    return tuple(_unix_peer(entry) for entry in item.items())


def _unix_peer(item: Item) -> UnixRule:
    fields = item.fields(("uid", "gid", *_IDENTITY))
    if not {"uid", "gid"} & fields.keys():
        raise item.error("'uid' or 'gid' is missing", "say which users it is about")
    return UnixRule(
        optional(fields, "uid", lambda given: given.whole(0, _MAX_ID), -1),
        optional(fields, "gid", lambda given: given.whole(0, _MAX_ID), -1),
        read_identity(fields, ""),
    )
