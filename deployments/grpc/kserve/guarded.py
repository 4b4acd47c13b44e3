# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gate of the gRPC port with an access policy: who may call, by path and metadata alone.

Theory of operation. A call is refused when its headers are there, before any message. What then
drives it is a service of the caller's own, over its own view of the plane, which checks the model
of each message. A stream outlives a policy or a token: a message that comes after the policy has
changed or the credentials have ended has the caller identified anew, and goes on with the rights it
then has. What is under way then is answered. A Watch, which sends without being asked, has its
caller identified anew with each look. Where that takes a moment, the call waits and others go on.
"""

import time
from collections.abc import Callable
from typing import Final

from backends.api.errors import GRPC_STATUS, TritonError
from deployments.access.contracts import Guard, Peer, PendingError, Rights
from deployments.data_plane.callers import (
    Access,
    PerCaller,
    Views,
    good_for_s,
    hidden_headers,
    roles_of,
)
from deployments.data_plane.face import Plane, SlabSource
from deployments.data_plane.view_checks import outcome_of, require_any
from deployments.grpc.codec.request import tensor_offset
from deployments.grpc.kserve.health import WatchCall
from deployments.grpc.kserve.service import (
    INFERENCE_PATHS,
    PATHS,
    STREAM_PATHS,
    GrpcService,
    RunningCalls,
    category_of,
)
from deployments.grpc.kserve.stream_infer import StreamCall
from deployments.grpc.rpc.inbox import Refusal
from deployments.grpc.rpc.service import Metadata, RpcCall, RpcReply
from deployments.grpc.rpc.status import RESOURCE_EXHAUSTED
from deployments.security.restrictions import (
    RESTRICTED_PREFIX,
    RestrictedRoutes,
    Restrictions,
)
from deployments.settings.forward_pattern import compile_forward_pattern

_RESTRICTED_STATUS: Final = 14
_UNIMPLEMENTED: Final = 12
_INDEX: Final = b"RepositoryIndex"


def make_grpc_gate(
    plane: Plane,
    access: Access,
    restrictions: Restrictions = (),
    *,
    header_forward_pattern: str = "",
) -> "GrpcGate":
    """Return the gate of the gRPC port.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """
    views, running = Views(plane, access, "grpc"), RunningCalls()
    compile_forward_pattern(header_forward_pattern, "--grpc-header-forward-pattern")

    def make(rights: Rights) -> GrpcService:
        return GrpcService(
            views.of(rights),
            header_forward_pattern=header_forward_pattern,
            hidden=hidden_headers(access.guard),
            running=running,
        )

    return GrpcGate(access.guard, make, plane.slabs, restrictions)


class GrpcGate:
    """What the guarded services of all connections share.

    Args:
        guard: Knows the callers.
        make: Makes the service of a caller.
        slabs: Where large messages are received into.
        restrictions: ``--grpc-restricted-protocol``, which come first.
        wall_s: The wall clock, in seconds, for when credentials end.
        now_s: The monotonic clock.

    Attributes:
        slabs: The same.
        wall_s: The same.
        now_s: The same.
    """

    def __init__(
        self,
        guard: Guard,
        make: Callable[[Rights], GrpcService],
        slabs: SlabSource,
        restrictions: Restrictions = (),
        wall_s: Callable[[], float] = time.time,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guard = guard
        self._services: PerCaller[GrpcService] = PerCaller(guard, make)
        self._restricted = RestrictedRoutes(
            (protocols, RESTRICTED_PREFIX + key, value) for protocols, key, value in restrictions
        )
        self.slabs = slabs
        self.wall_s = wall_s
        self.now_s = now_s

    @property
    def revision(self) -> int:
        """Of the policy."""
        return self._guard.revision

    def service_for(self, peer: Peer) -> "GuardedService":
        """Return the service of a connection."""
        return GuardedService(self, peer)

    def restricted(self, path: bytes, metadata: Metadata) -> str:
        """Return the metadata that a restricted RPC lacks, or nothing when it may pass."""
        return self._restricted.missing(category_of(path), metadata)

    def admit(self, path: bytes, metadata: Metadata, peer: Peer) -> "CallAdmission":
        """Let a call in.

        Raises:
            UnauthenticatedError: There are no valid credentials, or none where some are needed.
            PermissionDeniedError: The caller lacks the role.
            PendingError: The credentials are being checked.
        """
        guard = self._guard
        revision = guard.revision
        rights: Rights | None = None
        try:
            rights = guard.identify(metadata, peer)
            if path in PATHS:
                roles = roles_of(category_of(path), has_model=not path.endswith(_INDEX))
                require_any(rights, roles, ())
        except TritonError as error:
            what = path.rpartition(b"/")[2].decode("latin-1") if path in PATHS else "unknown"
            guard.note(rights, peer, what, "", outcome_of(error))
            raise
        until_s = self.now_s() + good_for_s(rights.caller.expires_s, self.wall_s())
        return CallAdmission(self._services.of(rights), revision, until_s, path, metadata)


class CallAdmission:
    """That calls of a method with some metadata may come in.

    Args:
        service: What drives them.
        revision: Of the policy that says so.
        until_s: From when on it is to be asked again, by the monotonic clock.
        path: The method.
        metadata: The metadata.
    """

    __slots__ = ("metadata", "path", "revision", "service", "until_s")

    def __init__(
        self,
        service: GrpcService,
        revision: int,
        until_s: float,
        path: bytes,
        metadata: Metadata,
    ) -> None:
        self.service = service
        self.revision = revision
        self.until_s = until_s
        self.path = path
        self.metadata = metadata


class GuardedService:
    """Implements `RpcService` for the calls of one connection.

    Args:
        gate: That of the port.
        peer: Who is at the other end.
    """

    __slots__ = ("_gate", "_last", "_peer")

    def __init__(self, gate: GrpcGate, peer: Peer) -> None:
        self._gate = gate
        self._peer = peer
        # A connection has the same metadata object for calls whose headers it has seen before.
        self._last: CallAdmission | None = None

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call, or finish it at once when it may not come in."""
        gate = self._gate
        last = self._last
        if (
            last is None
            or metadata is not last.metadata
            or path != last.path
            or not self.is_valid(last)
        ):
            header = gate.restricted(path, metadata)
            if header:
                text = f"This protocol is restricted, expecting header '{header}'"
                reply.finish(_RESTRICTED_STATUS, text)
                return None
            try:
                last = self.admit(path, metadata)
            except TritonError as error:
                reply.finish(GRPC_STATUS[error.code], error.message)
                return None
            except PendingError as pending:
                return GuardedCall(self, path, metadata, reply, pending=pending)
        call = last.service.start(path, metadata, reply)
        if call is None or path not in STREAM_PATHS:
            return call
        return GuardedCall(self, path, metadata, reply, last, call)

    def is_valid(self, admission: CallAdmission) -> bool:
        """Whether what was said of a call still holds."""
        gate = self._gate
        return admission.revision == gate.revision and gate.now_s() < admission.until_s

    def admit(self, path: bytes, metadata: Metadata) -> CallAdmission:
        """Ask the gate.

        Raises:
            TritonError: The call may not come in, or go on.
            PendingError: That is being found out.
        """
        self._last = self._gate.admit(path, metadata, self._peer)
        return self._last

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        """Return slab memory for a large message of a call that was let in."""
        if path not in INFERENCE_PATHS:
            return None
        return self._gate.slabs.allocate(size_bytes, tensor_offset(first))


class GuardedCall:
    """A call that may go on only while its caller may: one of several messages, or one that waits.

    While the credentials are being checked, what comes waits, as messages count in the memory
    budget; so does what a Watch would send.

    Args:
        service: That of its connection.
        path: The method.
        metadata: The metadata.
        reply: Where the answer goes.
        admission: With which it was opened; None while that is being found out.
        call: What takes the messages.
        pending: Says when that is known.
    """

    __slots__ = (
        "_admission",
        "_call",
        "_has_ended",
        "_is_half_closed",
        "_metadata",
        "_path",
        "_reply",
        "_service",
        "_waiting",
    )

    def __init__(
        self,
        service: GuardedService,
        path: bytes,
        metadata: Metadata,
        reply: RpcReply,
        admission: CallAdmission | None = None,
        call: RpcCall | None = None,
        pending: PendingError | None = None,
    ) -> None:
        self._service = service
        self._path = path
        self._metadata = metadata
        self._reply = reply
        self._admission = admission
        self._call = call
        self._has_ended = False
        self._is_half_closed = False
        # Messages that wait for the caller to be known; None while it is.
        self._waiting: list[bytes | memoryview | Refusal] | None = None
        if isinstance(call, WatchCall):
            # It goes on without messages.
            call.may_go_on = self._may_go_on
        if pending is not None:
            self._wait(pending)

    def message(self, data: bytes | memoryview) -> None:
        """Take a message, unless the caller may send no more."""
        if self._may_go_on() and self._call is not None:
            self._call.message(data)
        elif self._waiting is not None:
            self._waiting.append(data)

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """Pass a refusal on, unless the caller may send no more."""
        if self._may_go_on() and self._call is not None:
            return self._call.refuse_message(first, details)
        if self._waiting is None:
            return self._has_ended
        if self._path not in STREAM_PATHS:
            return False
        # Its place is all that it takes.
        self._reply.hold(0)
        self._waiting.append(Refusal(first, details))
        return True

    def half_closed(self) -> None:
        """The client sends no further message."""
        self._is_half_closed = True
        if self._waiting is None and not self._has_ended and self._call is not None:
            self._call.half_closed()

    def cancelled(self) -> None:
        """The client is gone."""
        if not self._has_ended:
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._waiting = None
        if self._call is not None:
            self._call.cancelled()

    def _may_go_on(self) -> bool:
        if self._waiting is not None or self._has_ended:
            return False
        admission, service = self._admission, self._service
        if admission is not None and service.is_valid(admission):
            return True
        try:
            self._admission = service.admit(self._path, self._metadata)
        except TritonError as error:
            self._end()
            self._reply.finish(GRPC_STATUS[error.code], error.message)
            return False
        except PendingError as pending:
            self._wait(pending)
            return False
        if self._call is None:
            return self._begin(self._admission)
        if isinstance(self._call, StreamCall):
            self._call.go_on_with(self._admission.service.context)
        return True

    def _begin(self, admission: CallAdmission) -> bool:
        """Begin a call whose caller was not known at its head."""
        self._call = call = admission.service.start(self._path, self._metadata, self._reply)
        if call is None:
            self._has_ended = True
            self._reply.finish(_UNIMPLEMENTED)
        elif isinstance(call, WatchCall):
            call.may_go_on = self._may_go_on
        return call is not None

    def _wait(self, pending: PendingError) -> None:
        self._waiting = []
        pending.when_known(self._go_on)

    def _take_waiting(self) -> list[bytes | memoryview | Refusal]:
        waiting, self._waiting = self._waiting, None
        return waiting or []

    def _go_on(self) -> None:
        """Take what has come while nobody knew whether the caller may go on."""
        waiting = self._take_waiting()
        if not self._may_go_on():
            if self._waiting is not None:
                # Once more.
                self._waiting = waiting
            return
        for each in waiting:
            if isinstance(each, Refusal):
                self._refuse_waiting(each)
            else:
                self.message(each)
        if self._waiting is None and not self._has_ended and self._call is not None:
            if isinstance(self._call, WatchCall):
                self._call.resume()
            if self._is_half_closed:
                self._call.half_closed()

    def _refuse_waiting(self, refusal: Refusal) -> None:
        self._reply.let_go(0)
        if not self.refuse_message(refusal.first, refusal.details):
            self._end()
            self._reply.finish(RESOURCE_EXHAUSTED, refusal.details)
