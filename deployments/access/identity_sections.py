# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The section ``authentication`` of an access policy. Pure."""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from deployments.access.keys import PREFIX, read_hash
from deployments.access.patterns import Patterns
from deployments.access.policy import (
    ApiKeyRules,
    CertificateRule,
    Identity,
    Issuer,
    Name,
    Names,
    Path,
    Scrypt,
    StoredKey,
    UnixRule,
)
from deployments.access.reading import Time
from deployments.settings.documents import (
    Part,
    Section,
    SectionError,
    Text,
    several,
    texts_in,
)

# Each look at an unknown credential costs tens of milliseconds for each of them.
_MOST_CHOSEN: Final = 8
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_RESERVED_HEADERS: Final = ("authorization", "host", "content-length", "transfer-encoding")
_NAME_KINDS: Final = ("dns", "uri", "email", "cn")

_Tenant = Annotated[str, Meta(min_length=1, max_length=128)]
_HeaderName = Annotated[str, Meta(min_length=1, max_length=128)]
_Paths = Path | Annotated[tuple[Path, ...], Meta(min_length=1)]
_Id = Annotated[int, Meta(ge=0, le=2**32 - 2)]


class Anonymous(Section, frozen=True):
    """Whom requests without credentials stand for."""

    tenant: _Tenant = ""
    groups: Names = ()

    def identity(self, subject: str) -> Identity:
        """Return it, under a name."""
        return Identity(subject, self.tenant, frozenset(several(self.groups)))


class Key(Anonymous, frozen=True, kw_only=True):
    """An API key, as it is kept."""

    subject: Annotated[Name, Meta(extra={"if_missing": "say whom the key stands for"})]
    hash: Annotated[Text, Meta(extra={"if_missing": "make it with 'manta policy new-key SUBJECT'"})]
    expires: Time = Time(math.inf)
    revoked: bool = False

    def check(self) -> None:
        """Refuse a hash that is weak, or none."""
        try:
            read_hash(self.hash)
        except ValueError as error:
            # Not shown: it may be the key itself.
            raise SectionError(
                f"the hash of a key is wrong, expected {error}",
                "make it with 'manta policy hash'",
                "hash",
            ) from None

    def stored(self) -> StoredKey:
        """Return what is kept of it."""
        found = read_hash(self.hash)
        return StoredKey(
            self.identity(self.subject),
            b"" if isinstance(found, Scrypt) else found,
            found if isinstance(found, Scrypt) else None,
            float(self.expires),
            self.revoked,
        )


Keys = Key | tuple[Key, ...]


def stored_keys(keys: Keys) -> tuple[StoredKey, ...]:
    """Return what is kept of keys, of a single one too."""
    return tuple(each.stored() for each in ((keys,) if isinstance(keys, Key) else keys))


def too_many_chosen(keys: Sequence[StoredKey], field: str = "") -> SectionError | None:
    """Return what is wrong where there are more chosen keys than can be looked at."""
    count = sum(key.scrypt is not None for key in keys)
    if count <= _MOST_CHOSEN:
        return None
    return SectionError(
        f"{count} keys are hashed with scrypt, expected at most {_MOST_CHOSEN}",
        "make random keys with 'manta policy new-key'",
        field,
    )


class ApiKeys(Section, frozen=True):
    """How API keys come and where they are kept."""

    headers: _HeaderName | Annotated[tuple[_HeaderName, ...], Meta(min_length=1)] = "x-api-key"
    bearer_prefix: Annotated[str, Meta(max_length=64)] = PREFIX
    keys: Keys | UnsetType = UNSET
    file: _Paths = ()
    directory: _Paths = ()

    def check(self) -> None:
        """Refuse headers that are others', too many chosen keys, and no keys."""
        if isinstance(self.keys, UnsetType) and not self.file and not self.directory:
            raise SectionError("there are no keys", "give 'keys', 'file' or 'directory'")
        for path, name in texts_in("headers", self.headers):
            if not _HEADER.fullmatch(name.lower()) or name.lower() in _RESERVED_HEADERS:
                raise SectionError(
                    "the name of a header of your own",
                    "'Authorization: Bearer' is looked at anyway",
                    path,
                    shows_value=True,
                )
        if error := too_many_chosen(self.stored(), "keys"):
            raise error

    def stored(self) -> tuple[StoredKey, ...]:
        """Return the keys that the policy file itself has."""
        return () if isinstance(self.keys, UnsetType) else stored_keys(self.keys)

    def rules(self) -> ApiKeyRules:
        """Return them as guards take them."""
        return ApiKeyRules(
            tuple(name.lower() for name in several(self.headers)),
            self.bearer_prefix,
            self.stored(),
            several(self.file),
            several(self.directory),
        )


def check_issuers(part: Part, issuers: Sequence[Issuer]) -> None:
    """Refuse an issuer that stands twice.

    Raises:
        PolicyError: There is one.
    """
    seen: set[str] = set()
    for at, each in enumerate(issuers):
        if each.issuer in seen:
            raise part.at(f"[{at}]").error(
                f"issuer '{each.issuer}' stands twice", "list all audiences in one entry"
            )
        seen.add(each.issuer)


class Certificate(Anonymous, frozen=True, kw_only=True):
    """Whom certificates stand for."""

    san: Annotated[Text, Meta(extra={"if_missing": "say which certificates it is about"})]
    subject: Name = ""

    def check(self) -> None:
        """Refuse a name of another kind."""
        kind, _, pattern = self.san.partition(":")
        if kind not in _NAME_KINDS or not pattern:
            raise SectionError(
                "dns:<pattern>, uri:<pattern>, email:<pattern> or cn:<pattern>",
                "for example 'uri:spiffe://example.org/ns/*/sa/*'",
                "san",
                shows_value=True,
            )

    def rule(self) -> CertificateRule:
        """Return it as guards take it."""
        kind, _, pattern = self.san.partition(":")
        is_caseless = kind in ("dns", "email")
        patterns = Patterns((pattern.lower() if is_caseless else pattern,))
        return CertificateRule(kind, patterns, self.identity(self.subject))


class UnixPeer(Anonymous, frozen=True):
    """Whom users of this machine stand for."""

    uid: _Id = -1
    gid: _Id = -1
    subject: Name = ""

    def check(self) -> None:
        """Refuse everybody."""
        if self.uid < 0 and self.gid < 0:
            raise SectionError("'uid' or 'gid' is missing", "say which users it is about")

    def rule(self) -> UnixRule:
        """Return it as guards take it."""
        return UnixRule(self.uid, self.gid, self.identity(self.subject))
