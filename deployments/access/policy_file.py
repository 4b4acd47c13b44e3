# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes an `AccessPolicy` of the text of a policy file. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from deployments.access.contracts import Role
from deployments.access.identity_sections import (
    read_anonymous,
    read_api_keys,
    read_certificates,
    read_issuers,
    read_keys,
    read_unix_peers,
)
from deployments.access.patterns import ANY, Patterns
from deployments.access.policy import (
    OUTCOMES,
    PROTOCOLS,
    AccessPolicy,
    AuditRules,
    Grant,
    Identity,
    StoredKey,
)
from deployments.access.reading import (
    Item,
    fields_of,
    optional,
    read_yaml,
    required,
    shown,
    suggestion,
    texts_of,
)
from deployments.access.tenant_rows import read_tenants

_SECTIONS: Final = ("authentication", "roles", "grants", "public", "tenants", "audit")
_WAYS: Final = ("api_keys", "jwt", "certificates", "unix_peers", "anonymous")
_WORDS: Final = tuple(str(role) for role in Role)


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
    sections = root.fields(_SECTIONS)
    ways = fields_of(sections, "authentication", _WAYS)
    roles = _roles(sections["roles"]) if "roles" in sections else {}
    policy = AccessPolicy(
        read_api_keys(ways["api_keys"]) if "api_keys" in ways else None,
        optional(ways, "jwt", read_issuers, ()),
        optional(ways, "certificates", read_certificates, ()),
        optional(ways, "unix_peers", read_unix_peers, ()),
        optional(ways, "anonymous", read_anonymous, Identity("anonymous")),
        optional(sections, "grants", lambda item: _grants(item, roles), ()),
        optional(sections, "public", lambda item: _public(item, roles), frozenset((Role.HEALTH,))),
        optional(sections, "tenants", read_tenants, {}),
        read_audit(sections["audit"]) if "audit" in sections else None,
    )
    _check_tenants(root, policy)
    return policy


def read_key_file(text: str, file: str, policy: AccessPolicy) -> tuple[StoredKey, ...]:
    """Return the API keys in a file that the policy names.

    Raises:
        PolicyError: Something in it is wrong, or it names a tenant that the policy does not.
    """
    root = read_yaml(text, file)
    keys = () if root.value is None else read_keys(root)
    _check_identities(root, [key.identity for key in keys], policy.tenants)
    return keys


def _roles(item: Item) -> dict[str, frozenset[Role]]:
    """Return sets of roles by their name."""
    found: dict[str, frozenset[Role]] = {}
    for name, words in item.mapping().items():
        if name in _WORDS:
            raise words.error(f"'{name}' is a role of its own", "choose another name")
        found[name] = _words(words, {})
    return found


def _words(item: Item, named: Mapping[str, frozenset[Role]]) -> frozenset[Role]:
    found: set[Role] = set()
    for each in item.one_or_more():
        word = each.choice((*_WORDS, *named), "role")
        found |= named[word] if word in named else {Role(word)}
    return frozenset(found)


def _public(item: Item, named: Mapping[str, frozenset[Role]]) -> frozenset[Role]:
    # An empty list says that not even health is asked without credentials.
    return frozenset() if item.value == [] else _words(item, named)


def _grants(item: Item, named: Mapping[str, frozenset[Role]]) -> tuple[Grant, ...]:
    return tuple(_grant(entry, named) for entry in item.items())


def _grant(item: Item, named: Mapping[str, frozenset[Role]]) -> Grant:
    fields = item.fields(("to", "roles", "models", "protocols"))
    to = required(item, fields, "to", "say to whom: subjects, groups, tenants or authenticated")
    whom = to.fields(("subjects", "groups", "tenants", "authenticated"))
    subjects = texts_of(whom, "subjects")
    groups = texts_of(whom, "groups")
    tenants = texts_of(whom, "tenants")
    is_for_authenticated = optional(whom, "authenticated", Item.flag, default=False)
    if not (subjects or groups or tenants or is_for_authenticated):
        raise to.error("nobody is named", "what is for everybody stands in 'public'")
    roles = required(item, fields, "roles", "say what is granted, for example 'roles: [infer]'")
    return Grant(
        Patterns(subjects),
        frozenset(groups),
        frozenset(tenants),
        _words(roles, named),
        is_for_authenticated,
        Patterns(texts_of(fields, "models") or (ANY,)),
        frozenset(optional(fields, "protocols", _protocols, PROTOCOLS)),
    )


def _protocols(item: Item) -> tuple[str, ...]:
    return tuple(each.choice(PROTOCOLS, "protocol") for each in item.one_or_more())


def read_audit(item: Item) -> AuditRules:
    """Return what is written to the audit log."""
    fields = item.fields(("file", "outcomes", "allowed_share"))
    return AuditRules(
        optional(fields, "file", lambda given: given.text(4096), ""),
        frozenset(optional(fields, "outcomes", _outcomes, ("denied", "unauthenticated"))),
        optional(fields, "allowed_share", lambda given: given.number(0, 1), 1.0),
    )


def _outcomes(item: Item) -> tuple[str, ...]:
    return tuple(each.choice(OUTCOMES, "outcome") for each in item.one_or_more())


def _check_tenants(root: Item, policy: AccessPolicy) -> None:
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
    root: Item, identities: Iterable[Identity], tenants: Mapping[str, object]
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
