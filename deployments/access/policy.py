# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an access policy says, checked, as plain data. Pure."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from deployments.access.contracts import Role
from deployments.access.patterns import Patterns
from deployments.settings.documents import Section, SectionError, Text, Texts, several

Protocol = Annotated[Literal["http", "grpc", "metrics"], Meta(title="protocol")]
PROTOCOLS: Final = ("http", "grpc", "metrics")
# What may be asked of tokens: signatures that a public key checks. RFC 7518, RFC 8037.
Algorithm = Annotated[
    Literal[
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
    ],
    Meta(title="algorithm"),
]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Names = Name | Annotated[tuple[Name, ...], Meta(min_length=1)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Period = Annotated[float, Meta(ge=1, le=86_400)]
Outcome = Annotated[
    Literal["allowed", "denied", "unauthenticated", "failed"], Meta(title="outcome")
]


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom credentials stand for.

    Attributes:
        subject: Who it is.
        tenant: Whom its requests count for; empty for none.
        groups: What it belongs to.
    """

    subject: str
    tenant: str = ""
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What is kept of an API key.

    Attributes:
        identity: Whom it stands for.
        digest: SHA-256 of a key that was made at random; empty for a chosen one.
        scrypt: How a chosen one is checked; None for a random one.
        expires_s: Until when it is good, seconds of the wall clock.
        is_revoked: Whether it is good no more.
    """

    identity: Identity
    digest: bytes = dataclasses.field(default=b"", repr=False)
    scrypt: "Scrypt | None" = dataclasses.field(default=None, repr=False)
    expires_s: float = math.inf
    is_revoked: bool = False


@dataclass(frozen=True, slots=True)
class Scrypt:
    """Parameters of scrypt (RFC 7914), and what it has to give."""

    cost: int
    block_size: int
    parallelization: int
    salt: bytes = dataclasses.field(repr=False)
    expected: bytes = dataclasses.field(repr=False)


@dataclass(frozen=True, slots=True)
class ApiKeyRules:
    """How API keys come and where they are kept.

    Attributes:
        headers: Names of headers whose value is a key, in lower case.
        bearer_prefix: What a key begins with that comes as ``Authorization: Bearer``; empty if none
            does.
        keys: Those in the policy file.
        files: Files with more of them.
        directories: Folders of such files.
    """

    headers: tuple[str, ...] = ("x-api-key",)
    bearer_prefix: str = "mk_"
    keys: tuple[StoredKey, ...] = ()
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


class Claims(Section, frozen=True):
    """Claims of a token that say whom it stands for; dots go into objects.

    Attributes:
        subject: The one that is the subject.
        tenant: The one that is the tenant; empty for none.
        groups: The one that lists groups, or names them separated by spaces; empty for none.
    """

    subject: Text = "sub"
    tenant: Text = ""
    groups: Text = ""


class Issuer(Section, frozen=True):
    """Whose tokens are taken.

    Attributes:
        issuer: What their ``iss`` must be.
        audience: One of these must be in their ``aud``.
        algorithm: How they may be signed, one or several.
        jwks_file: File with the issuer's public keys, a JWK set; empty for none.
        jwks_url: Where to fetch it; empty for none.
        is_discovered: Whether the issuer's OpenID configuration says where to fetch it.
        refresh_s: How often it is fetched.
        least_refresh_s: How soon an unknown key has it fetched again.
        clock_skew_s: By how much clocks may differ.
        claims: Those that say whom a token stands for.
        groups: Groups that all callers with such tokens belong to.
        subject_prefix: Put before subjects, so that no token takes the name of somebody else.
    """

    issuer: Annotated[Text, Meta(extra={"if_missing": "say what 'iss' of the tokens is"})]
    audience: Annotated[
        Texts, Meta(extra={"if_missing": "say what 'aud' of the tokens has to name"})
    ]
    algorithm: Algorithm | Annotated[tuple[Algorithm, ...], Meta(min_length=1)] = field(
        default=("RS256", "ES256"), name="algorithms"
    )
    jwks_file: Path = ""
    jwks_url: Annotated[str, Meta(min_length=1, max_length=2048)] = ""
    is_discovered: bool = field(default=False, name="discovery")
    refresh_s: Period = 300.0
    least_refresh_s: Period = 10.0
    clock_skew_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    claims: Claims = Claims()
    groups: Names = ()
    subject_prefix: Annotated[str, Meta(min_length=1, max_length=64)] = ""

    def check(self) -> None:
        """Refuse no source of keys or several, and what is no URL."""
        sources = bool(self.jwks_file) + bool(self.jwks_url) + self.is_discovered
        if sources != 1:
            raise SectionError(
                f"got {sources} sources of the issuer's keys, expected one",
                "give 'jwks_file', 'jwks_url' or 'discovery: true'",
            )
        fetched = {"issuer": self.issuer if self.is_discovered else "", "jwks_url": self.jwks_url}
        for name, text in fetched.items():
            if text and not _is_url(text):
                # Not shown: somebody may have put a password into it.
                raise SectionError(
                    "expected a URL http(s)://<host>/<path> without user and password", "", name
                )

    @property
    def algorithms(self) -> tuple[str, ...]:
        """How tokens may be signed."""
        return several(self.algorithm)

    @property
    def source(self) -> tuple[str, str]:
        """Whose keys they are and where they are fetched from: other rules change neither."""
        return self.issuer, self.jwks_url

    @property
    def is_fetched(self) -> bool:
        """Whether its keys come from the network."""
        return bool(self.jwks_url) or self.is_discovered


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not parts.username
            and parts.port != 0
        )
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """Whom a name in a client certificate stands for.

    Attributes:
        kind: ``dns``, ``uri``, ``email`` or ``cn``, the common name.
        names: Which names it is about.
        identity: Whom they stand for; an empty subject is the name itself.
    """

    kind: str
    names: Patterns
    identity: Identity


@dataclass(frozen=True, slots=True)
class UnixRule:
    """Whom a user of this machine stands for.

    Attributes:
        uid: The user; -1 for any.
        gid: Its group; -1 for any.
        identity: Whom it stands for; an empty subject is ``uid:<uid>``.
    """

    uid: int
    gid: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class Grant:
    """What some callers may do.

    Attributes:
        subjects: Callers by their subject.
        groups: Callers by a group of theirs.
        tenants: Callers by their tenant.
        is_for_authenticated: Whether it is for all callers with valid credentials.
        roles: What is granted.
        models: For which models.
        protocols: At which ports.
    """

    subjects: Patterns
    groups: frozenset[str]
    tenants: frozenset[str]
    roles: frozenset[Role]
    is_for_authenticated: bool = False
    models: Patterns = Patterns(("*",))
    protocols: frozenset[str] = frozenset(PROTOCOLS)


class AuditRules(Section, frozen=True):
    """What is written to the audit log.

    Attributes:
        file: Where; empty for the process's log on stderr.
        outcomes: Which outcomes.
        allowed_share: Share of allowed requests that are written, 0 to 1.
    """

    file: Path = ""
    outcomes: Outcome | Annotated[tuple[Outcome, ...], Meta(min_length=1)] = (
        "denied",
        "unauthenticated",
    )
    allowed_share: Annotated[float, Meta(ge=0, le=1)] = 1.0


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """All that a policy file says.

    Attributes:
        api_keys: None where keys are not taken.
        issuers: Whose tokens are taken.
        certificates: The first rule that fits a certificate counts.
        unix_peers: The first rule that fits a user counts.
        anonymous: Whom requests without credentials stand for.
        grants: What is allowed; everything else is not.
        public: What everybody may do.
        tenants: Rows of quotas by tenant, checked; see `deployments.access.tenant_rows`.
        audit: None without an audit log.
    """

    api_keys: ApiKeyRules | None = None
    issuers: tuple[Issuer, ...] = ()
    certificates: tuple[CertificateRule, ...] = ()
    unix_peers: tuple[UnixRule, ...] = ()
    anonymous: Identity = Identity("anonymous")
    grants: tuple[Grant, ...] = ()
    public: frozenset[Role] = frozenset((Role.HEALTH,))
    tenants: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    audit: AuditRules | None = None
