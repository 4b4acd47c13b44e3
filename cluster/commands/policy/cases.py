# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The cases of ``manta policy test``: who asks for what, and what shall come of it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from backends.api.errors import PermissionDeniedError, TritonError, UnauthenticatedError
from cluster.commands.policy.routes import Asked, asked_by
from deployments.access.contracts import Peer, Rights, Role
from deployments.access.guard import PolicyGuard
from deployments.access.policy import PROTOCOLS
from deployments.access.policy_files import LoadedPolicy
from deployments.access.reading import Item, fields_of, optional, read_yaml, texts_of
from deployments.access.refusals import Method
from deployments.access.rights import PolicyRights
from deployments.security.caller import Caller

_OUTCOMES: Final = ("allowed", "denied", "unauthenticated")
_CASE: Final = (
    *("name", "caller", "headers", "certificate", "unix", "at"),
    *("role", "route", "model", "protocol", "expect"),
)
_ROLES: Final = tuple(str(role) for role in Role)


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: What the table of failures calls it.
        caller: Who asks; None where credentials are tried.
        headers: Headers with credentials.
        peer: The connection.
        time_s: When, by the wall clock.
        asked: For what.
        expected: What shall come of it.
    """

    name: str
    caller: Caller | None
    headers: tuple[tuple[bytes, bytes], ...]
    peer: Peer
    time_s: float
    asked: Asked
    expected: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A case with another outcome than expected.

    Attributes:
        case: The case.
        outcome: What came of it.
        reason: What the client would be told; empty if it was allowed.
    """

    case: Case
    outcome: str
    reason: str


def read_cases(text: str, file: str) -> tuple[Case, ...]:
    """Return the cases of a file.

    Raises:
        PolicyError: Something in it is wrong.
        OSError: A certificate that it names cannot be read.
    """
    now_s = time.time()
    return tuple(_case(item, now_s, Path(file).parent) for item in read_yaml(text, file).items())


def _case(item: Item, now_s: float, folder: Path) -> Case:
    fields = item.fields(_CASE)
    protocol = optional(fields, "protocol", lambda each: each.choice(PROTOCOLS, "protocol"), "http")
    asked = _asked(item, fields)
    if "expect" not in fields:
        raise item.error("'expect' is missing", f"say {', '.join(_OUTCOMES)}")
    expected = fields["expect"].choice(_OUTCOMES, "outcome")
    caller = _caller(fields["caller"]) if "caller" in fields else None
    if caller is not None and {"headers", "certificate", "unix"} & fields.keys():
        raise item.error("it has a caller and credentials", "remove one of them")
    who = "nobody" if caller is None else caller.subject
    what = fields["route" if "route" in fields else "role"].text()
    return Case(
        optional(fields, "name", Item.text, f"{item.path} {who}: {what} {asked.model}".strip()),
        caller,
        tuple(
            (name.encode(), value.text(16_384).encode())
            for name, value in _mapping(fields, "headers").items()
        ),
        _peer(fields, protocol, folder),
        optional(fields, "at", Item.time_s, now_s),
        asked,
        expected,
    )


def _asked(item: Item, fields: dict[str, Item]) -> Asked:
    if ("role" in fields) == ("route" in fields):
        raise item.error("it asks for no one thing", "give 'role' or 'route'")
    model = optional(fields, "model", Item.text, "")
    if "role" in fields:
        return Asked((Role(fields["role"].choice(_ROLES, "role")),), model)
    asked = asked_by(fields["route"].text())
    if asked is None:
        raise fields["route"].wrong(
            "a path such as /v2/models/<model>/infer or an RPC such as ModelInfer",
            "or give 'role' instead",
        )
    return Asked(asked.roles, model or asked.model)


def _caller(item: Item) -> Caller:
    fields = item.fields(("subject", "tenant", "groups", "method"))
    method = optional(
        fields, "method", lambda each: each.choice(tuple(Method), "method"), Method.API_KEY
    )
    return Caller(
        optional(fields, "subject", Item.text, "somebody"),
        optional(fields, "tenant", Item.text, ""),
        method,
        frozenset(texts_of(fields, "groups")),
    )


def _peer(fields: dict[str, Item], protocol: str, folder: Path) -> Peer:
    der = b""
    if "certificate" in fields:
        file = folder / fields["certificate"].text()
        try:
            der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
        except ValueError:
            raise fields["certificate"].wrong("a PEM file with a certificate") from None
    user = fields_of(fields, "unix", ("uid", "gid"))
    uid = optional(user, "uid", Item.whole, -1)
    return Peer(protocol, der, uid, optional(user, "gid", Item.whole, -1), bool(der))


def _mapping(fields: dict[str, Item], key: str) -> dict[str, Item]:
    return fields[key].mapping() if key in fields else {}


def failures_of(loaded: LoadedPolicy, cases: Iterable[Case]) -> list[Failure]:
    """Return the cases whose outcome is another one than expected."""
    found = []
    for case in cases:
        outcome, reason = _try(loaded, case)
        if outcome != case.expected:
            found.append(Failure(case, outcome, reason))
    return found


def _try(loaded: LoadedPolicy, case: Case) -> tuple[str, str]:
    """Return what comes of a case, and what the client is told."""
    try:
        rights = _rights_in(loaded, case)
        first, *others = case.asked.roles
        for role in others:
            if rights.may(role, case.asked.model):
                return "allowed", ""
        rights.check(first, case.asked.model)
    except UnauthenticatedError as error:
        return "unauthenticated", error.message
    except PermissionDeniedError as error:
        return "denied", error.message
    except TritonError as error:
        return error.code.lower(), error.message
    return "allowed", ""


def _rights_in(loaded: LoadedPolicy, case: Case) -> Rights:
    if case.caller is not None:
        return PolicyRights(case.caller, 1, loaded.policy, case.peer.protocol)
    clock: Callable[[], float] = lambda: case.time_s  # noqa: E731 - a clock that stands
    return PolicyGuard(loaded, clock).identify(case.headers, case.peer)
