# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The cases of ``manta policy test``: who asks for what, and what shall come of it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import UNSET, Meta, UnsetType

from backends.api.errors import PermissionDeniedError, TritonError, UnauthenticatedError
from cluster.commands.policy.routes import Asked, asked_by
from deployments.access.contracts import Peer, Rights, Role
from deployments.access.guard import PolicyGuard
from deployments.access.policy import Protocol
from deployments.access.policy_files import LoadedPolicy
from deployments.access.reading import Time, read_yaml
from deployments.access.refusals import Method
from deployments.access.rights import PolicyRights
from deployments.security.caller import Caller
from deployments.settings.documents import Part, Section, SectionError, Text, Texts, several

_Id = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Expected = Annotated[
    Literal["allowed", "denied", "unauthenticated"],
    Meta(title="outcome", extra={"if_missing": "say allowed, denied, unauthenticated"}),
]


class _Caller(Section, frozen=True):
    """Who asks."""

    subject: Text = "somebody"
    tenant: Text = ""
    groups: Texts = ()
    method: Annotated[Method, Meta(title="method")] = Method.API_KEY


class _User(Section, frozen=True):
    """A user of this machine."""

    uid: _Id = -1
    gid: _Id = -1


class _Case(Section, frozen=True, kw_only=True):
    """A case as its file has it."""

    name: Text = ""
    caller: _Caller | UnsetType = UNSET
    headers: Any = {}
    certificate: Text = ""
    unix: _User | UnsetType = UNSET
    at: Time | UnsetType = UNSET
    role: Annotated[Role, Meta(title="role")] | UnsetType = UNSET
    route: Text = ""
    model: Text = ""
    protocol: Protocol = "http"
    expect: _Expected

    def check(self) -> None:
        """Refuse a case that asks for no one thing, and one whose caller is not known for sure."""
        if isinstance(self.role, UnsetType) != bool(self.route):
            raise SectionError("it asks for no one thing", "give 'role' or 'route'")
        has_credentials = self.headers != {} or self.certificate or self.unix is not UNSET
        if self.caller is not UNSET and has_credentials:
            raise SectionError("it has a caller and credentials", "remove one of them")


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: What the table of failures calls it.
        caller: Who asks; None where credentials are tried.
        time_s: When, by the wall clock.
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
    whole = read_yaml(text, file)
    given = whole.read(tuple[_Case, ...])
    return tuple(
        _case(whole.at(f"[{at}]"), each, now_s, Path(file).parent) for at, each in enumerate(given)
    )


def _case(part: Part, given: _Case, now_s: float, folder: Path) -> Case:
    asked = _asked(part, given)
    caller = None if isinstance(given.caller, UnsetType) else _caller(given.caller)
    who = "nobody" if caller is None else caller.subject
    what = given.route or given.role
    headers = part.at("headers").parts() if given.headers != {} else {}
    return Case(
        given.name or f"{part.path} {who}: {what} {asked.model}".strip(),
        caller,
        tuple((name.encode(), _header(value).encode()) for name, value in headers.items()),
        _peer(part, given, folder),
        now_s if isinstance(given.at, UnsetType) else float(given.at),
        asked,
        given.expect,
    )


def _header(part: Part) -> str:
    text: str = part.read(Annotated[str, Meta(min_length=1, max_length=16_384)])  # type: ignore[arg-type]
    if not text.isprintable():
        raise part.wrong("a text of printable characters")
    return text


def _asked(part: Part, given: _Case) -> Asked:
    if not isinstance(given.role, UnsetType):
        return Asked((given.role,), given.model)
    asked = asked_by(given.route)
    if asked is None:
        raise part.at("route").wrong(
            "a path such as /v2/models/<model>/infer or an RPC such as ModelInfer",
            "or give 'role' instead",
        )
    return Asked(asked.roles, given.model or asked.model)


def _caller(given: _Caller) -> Caller:
    return Caller(given.subject, given.tenant, given.method, frozenset(several(given.groups)))


def _peer(part: Part, given: _Case, folder: Path) -> Peer:
    der = b""
    if given.certificate:
        file = folder / given.certificate
        try:
            der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
        except ValueError:
            raise part.at("certificate").wrong("a PEM file with a certificate") from None
    user = _User() if isinstance(given.unix, UnsetType) else given.unix
    return Peer(given.protocol, der, user.uid, user.gid, bool(der))


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
