# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The calls of a model to other models: a router inside the instance's process.

It starts with the model's first call, follows the same table as the ingresses do and opens lanes
only to the models that are called. Models call from any thread; the router lives on the actor's
event loop, which a model cannot block.

An instance never calls itself: it could only wait for its own end.
"""

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from backends.api.errors import (
    InternalError,
    NotFoundError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.model_caller import CallSink
from backends.api.request import InferenceRequest, ParameterValue
from deployments.contracts.control import ControllerLink
from deployments.contracts.faults import end_with_fault
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.settings.lane_settings import DEFAULT_LANES, LaneSettings
from deployments.slabs.pool import SlabPool

if TYPE_CHECKING:
    from deployments.instance.model_router import ModelRouter
    from deployments.routing.served_model import ServedModel

T = TypeVar("T")

# The controller answers a first poll at once, unless it is just restarting.
_START_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingProcess:
    """What the router of a process is made of whose model calls others.

    Attributes:
        node_id: Ray node of this process.
        incarnation: This instance, which is never called.
        secret: Key of the lanes' handshake.
        slabs: This process's shared slabs.
        cache: Name and settings of the response cache of called models; None without one.
        lanes: The server's options about lanes.
    """

    node_id: str
    incarnation: str
    secret: bytes = field(repr=False)
    slabs: SlabPool
    cache: tuple[str, Mapping[str, str]] | None = field(default=None, repr=False)
    lanes: LaneSettings = DEFAULT_LANES


class RouterCaller:
    """Implements `backends.api.model_caller.ModelCaller`.

    Args:
        connect: Makes the link to the controller.
        process: What its router is made of.
    """

    def __init__(self, connect: Callable[[], ControllerLink], process: CallingProcess) -> None:
        self._connect = connect
        self._process = process
        self._running: Future[asyncio.AbstractEventLoop] = Future()
        self._starting = threading.Lock()
        self._router: ModelRouter | None = None
        self._controller: ControllerLink | None = None

    def run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the event loop of the process, which runs on another thread than models do."""
        if not self._running.done():
            self._running.set_result(loop)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._running.result()

    def call(self, request: InferenceRequest, sink: CallSink, *, decoupled: bool) -> "_Call":
        """Send a request; see `ModelCaller.call`."""
        call = _Call(self._loop, request, sink, decoupled=decoupled)
        try:
            started = self._started()
        except TritonError as error:
            sink.fail(call.failure(error.message))
            return call
        self._loop.call_soon_threadsafe(call.start, started)
        return call

    def is_model_ready(self, name: str, version: int) -> bool:
        """Whether a version takes requests; see `ModelCaller.is_model_ready`."""
        router = self._started().router

        async def look() -> bool:
            try:
                served = router.find(name, version)
                if served.ensemble is not None:
                    served.ensemble.check_ready()
            except TritonError:
                return False
            return True

        return self._run(look())

    def load_model(self, name: str, parameters: Mapping[str, ParameterValue | bytes]) -> None:
        """Load or reload a model; see `ModelCaller.load_model`."""
        self._started()
        self._run(self._link().load(name, dict(parameters)))

    def unload_model(self, name: str, *, unload_dependents: bool) -> None:
        """Unload a model; see `ModelCaller.unload_model`."""
        self._started()
        self._run(self._link().unload(name, unload_dependents=unload_dependents))

    def check_health(self) -> None:
        """Check that the routing table is followed, if a call of the model ever needed it.

        Raises:
            InternalError: It is not, so that calls go where models were and are no more.
        """
        if self._router is not None:
            self._router.watch.check()

    async def close(self) -> None:
        """Stop following the table and close all lanes; calls on them fail."""
        if self._router is not None:
            await self._router.close()

    def _started(self) -> "ModelRouter":
        if self._router is None:
            with self._starting:
                if self._router is None:
                    # Few models call models, and a router is half of what an instance's process
                    # would import. Here, because imports would hold up the loop.
                    importlib.import_module("deployments.instance.model_router")
                    self._router = self._run(self._start())
        return self._router

    async def _start(self) -> "ModelRouter":
        from deployments.instance.model_router import ModelRouter  # noqa: PLC0415 - see _started

        started = ModelRouter(self._link(), self._process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_S):
                await started.watch.wait_first()
                return started
        await started.close()
        raise UnavailableError(
            f"the model controller has not answered within {_START_TIMEOUT_S:.0f} s"
        )

    def _link(self) -> ControllerLink:
        if self._controller is None:
            self._controller = self._connect()
        return self._controller

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Call:
    """One call: checked and sent on the event loop, cancelled from anywhere."""

    __slots__ = ("_cancelled", "_decoupled", "_inflight", "_loop", "_request", "_sink")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        request: InferenceRequest,
        sink: CallSink,
        *,
        decoupled: bool,
    ) -> None:
        self._loop = loop
        self._request = request
        self._sink = sink
        self._decoupled = decoupled
        self._inflight: Inflight | None = None
        self._cancelled = False

    def start(self, started: "ModelRouter") -> None:
        """Check the request and send it, on the event loop."""
        if self._cancelled:
            self._sink.fail(RequestCancelledError(""))
            return
        request, router = self._request, started.router
        try:
            model = self._find(started, request)
            if model is None:
                return
            rollout = model.rollout
            if rollout is not None:
                model = router.models.choose(model, request)
            model.checker.check(request)
            request.model_version = model.version
            sink: ResponseSink = self._sink
            if request.trace is not None:
                sink = started.recorder.call(model.version, request, sink)
            if rollout is not None:
                sink = rollout.counted(model.version, sink)
            self._inflight = router.submit(model, request, sink)
        except TritonError as error:
            self._sink.fail(self.failure(error.message))
        except Exception as fault:
            end_with_fault(self._sink, fault, self._what)

    async def _start_after(self, first_use: Awaitable[None], started: "ModelRouter") -> None:
        try:
            await first_use
        except TritonError as error:
            self._sink.fail(self.failure(error.message))
        except Exception as fault:
            end_with_fault(self._sink, fault, self._what)
        else:
            self.start(started)

    @property
    def _what(self) -> str:
        return f"a model's call of model '{self._request.model_name}'"

    def _find(self, started: "ModelRouter", request: InferenceRequest) -> "ServedModel | None":
        """Return the model; None where it is loaded first, and the call begins anew then."""
        name, router = request.model_name, started.router
        try:
            model = router.find(name, request.model_version)
        except (NotFoundError, UnavailableError):
            first_use = router.first_use(name)
            if first_use is not None:
                begins_anew = self._start_after(first_use, started)
                started.tasks.spawn("first use of a model", begins_anew)
                return None
            text = f"Failed for execute the inference request. Model '{name}' is not ready."
            raise InternalError(text) from None
        if model.config.decoupled and not self._decoupled:
            raise InternalError(
                f"Model {name} is using the decoupled. The current BLS request call doesn't "
                f"support models using the decoupled transaction policy. Please use "
                f"'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled "
                f"models.'"
            )
        if model.ensemble is None and router.is_only_own(model):
            raise InternalError(
                f"model '{name}' calls itself and has one instance, which would wait for itself; "
                f"give it a larger instance_group count"
            )
        return model

    def failure(self, reason: str) -> InternalError:
        """Return the error of a call that came to nothing before it was sent."""
        name = self._request.model_name
        return InternalError(f"Model {name} - Error when running inference: {reason}")

    def cancel(self) -> None:
        """Cancel the call, from any thread."""
        if not self._cancelled:
            self._cancelled = True
            # The loop is closed when the process is about to end.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._inflight is not None:
            self._inflight.cancel()
