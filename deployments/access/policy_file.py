# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes an `AccessPolicy` of the text of a policy file. Pure."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from deployments.access.contracts import Role
from deployments.access.identity_sections import (
    Anonymous,
    ApiKeys,
    Certificate,
    Keys,
    UnixPeer,
    check_issuers,
    stored_keys,
    too_many_chosen,
)
from deployments.access.patterns import ANY, Patterns
from deployments.access.policy import (
    PROTOCOLS,
    AccessPolicy,
    AuditRules,
    Grant,
    Identity,
    Issuer,
    Protocol,
    StoredKey,
)
from deployments.access.reading import read_yaml
from deployments.access.tenant_rows import read_tenants
from deployments.settings.documents import (
    Part,
    Section,
    SectionError,
    Text,
    Texts,
    several,
    shown,
    suggestion,
    texts_in,
)

_WORDS: Final = tuple(str(role) for role in Role)
_Protocols = Protocol | Annotated[tuple[Protocol, ...], Meta(min_length=1)]


class _Authentication(Section, frozen=True):
    """How callers say who they are."""

    api_keys: ApiKeys | UnsetType = UNSET
    jwt: tuple[Issuer, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    unix_peers: tuple[UnixPeer, ...] = ()
    anonymous: Anonymous = Anonymous()


class _Callers(Section, frozen=True):
    """To whom something is granted."""

    subjects: Texts = ()
    groups: Texts = ()
    tenants: Texts = ()
    authenticated: bool = False

    def check(self) -> None:
        if not (self.subjects or self.groups or self.tenants or self.authenticated):
            raise SectionError("nobody is named", "what is for everybody stands in 'public'")


class _Grant(Section, frozen=True):
    """What some callers may do."""

    to: Annotated[
        _Callers,
        Meta(extra={"if_missing": "say to whom: subjects, groups, tenants or authenticated"}),
    ]
    roles: Annotated[
        Texts, Meta(extra={"if_missing": "say what is granted, for example 'roles: [infer]'"})
    ]
    models: Texts = ANY
    protocols: _Protocols = PROTOCOLS


class _Policy(Section, frozen=True):
    """A policy file. An empty list of ``public`` says that not even health is for everybody."""

    authentication: _Authentication = _Authentication()
    roles: Any = {}
    grants: tuple[_Grant, ...] = ()
    public: Text | tuple[Text, ...] = Role.HEALTH.value
    tenants: Any = {}
    audit: AuditRules | UnsetType = UNSET


def read_policy(text: str, file: str) -> AccessPolicy:
    """Return what a policy file says.

    Args:
        text: Its content.
        file: Its name, for errors.

    Raises:
        PolicyError: Something in it is wrong; nothing else, whatever the text.
    """
    root = read_yaml(text, file)
    if root.value is None:
        raise root.error("it is empty", "an empty policy is '{}', which allows health only")
    given = root.read(_Policy)
    ways = given.authentication
    roles = _roles(root.at("roles")) if given.roles != {} else {}
    check_issuers(root.at("authentication.jwt"), ways.jwt)
    policy = AccessPolicy(
        None if isinstance(ways.api_keys, UnsetType) else ways.api_keys.rules(),
        ways.jwt,
        tuple(each.rule() for each in ways.certificates),
        tuple(each.rule() for each in ways.unix_peers),
        ways.anonymous.identity("anonymous"),
        tuple(_grant(root.at(f"grants[{at}]"), x, roles) for at, x in enumerate(given.grants)),
        _roles_of(root, "public", given.public, roles),
        read_tenants(root.at("tenants")) if given.tenants != {} else {},
        None if isinstance(given.audit, UnsetType) else given.audit,
    )
    _check_tenants(root, policy)
    return policy


def read_key_file(text: str, file: str, policy: AccessPolicy) -> tuple[StoredKey, ...]:
    """Return the API keys in a file that the policy names.

    Raises:
        PolicyError: Something in it is wrong, or it names a tenant that the policy does not.
    """
    root = read_yaml(text, file)
    given: Keys = () if root.value is None else root.read(Keys)  # type: ignore[arg-type]
    keys = stored_keys(given)
    if error := too_many_chosen(keys):
        raise error.about(root)
    _check_identities(root, [key.identity for key in keys], policy.tenants)
    return keys


def _roles(part: Part) -> dict[str, frozenset[Role]]:
    """Return sets of roles by their name."""
    found: dict[str, frozenset[Role]] = {}
    for name, words in part.parts().items():
        if name in _WORDS:
            raise words.error(f"'{name}' is a role of its own", "choose another name")
        found[name] = _roles_of(words, "", words.read(Texts), {})  # type: ignore[arg-type]
    return found


def _roles_of(
    part: Part, field: str, given: str | tuple[str, ...], named: Mapping[str, frozenset[Role]]
) -> frozenset[Role]:
    """Return the roles that words of a field stand for, those of the policy's own among them."""
    found: set[Role] = set()
    for path, word in texts_in(field, given):
        if word not in _WORDS and word not in named:
            raise part.at(path).unknown("role", (*_WORDS, *named))
        found |= named[word] if word in named else {Role(word)}
    return frozenset(found)


def _grant(part: Part, given: _Grant, named: Mapping[str, frozenset[Role]]) -> Grant:
    return Grant(
        Patterns(several(given.to.subjects)),
        frozenset(several(given.to.groups)),
        frozenset(several(given.to.tenants)),
        _roles_of(part, "roles", given.roles, named),
        given.to.authenticated,
        Patterns(several(given.models)),
        frozenset(several(given.protocols)),
    )


def _check_tenants(root: Part, policy: AccessPolicy) -> None:
    """Refuse names of tenants that are not in the section, if there is one."""
    keys = () if policy.api_keys is None else policy.api_keys.keys
    _check_identities(
        root,
        [
            policy.anonymous,
            *(key.identity for key in keys),
            *(rule.identity for rule in policy.certificates),
            *(rule.identity for rule in policy.unix_peers),
            *(Identity("", tenant) for grant in policy.grants for tenant in grant.tenants),
        ],
        policy.tenants,
    )


def _check_identities(
    root: Part, identities: Iterable[Identity], tenants: Mapping[str, object]
) -> None:
    if not tenants:
        return
    for identity in identities:
        name = identity.tenant
        if name and name not in tenants:
            of = f" of subject {shown(identity.subject)}" if identity.subject else ""
            raise root.error(
                f"tenant {shown(name)}{of} is not in the policy's section 'tenants'",
                suggestion(name, tenants) or "add it there",
            )
