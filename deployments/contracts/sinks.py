# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The protocols that join the parts of the data plane.

The ingress codecs call `InferencePlane.infer` with a `ResponseSink`; the plane calls the sink back
on the event loop. Callbacks, not awaitables, because a task per request costs 10 us of the 60 a
request may take.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse, ParameterValue
from deployments.contracts.routing_table import RoutingTable
from deployments.settings.server_settings import ServerSettings, SettingsChange
from deployments.tracing.record import TraceReport


class ResponseSink(Protocol):
    """Receives the outcome of one request, on the event loop that submitted it.

    Exactly one terminal call is made: ``respond`` or ``fail`` with final=True. After a cancel the
    terminal call may be ``fail(RequestCancelledError)``. Only a decoupled model goes on after an
    error.
    """

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response; None (only with final=True) closes a stream with no further response."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error; with final=True it ends the request."""


@runtime_checkable
class TracedSink(ResponseSink, Protocol):
    """The sink of a traced request."""

    def traced(self, report: TraceReport) -> None:
        """Take what the instance says of the request; the terminal call follows."""


class Inflight(Protocol):
    """A request on its way."""

    def cancel(self) -> None:
        """Ask for the request to be dropped; its sink still gets its terminal call. Idempotent."""


@runtime_checkable
class Paced(Inflight, Protocol):
    """A request on its way whose model waits for its caller; see `InferenceRequest.window`."""

    def credit(self) -> None:
        """Ask for one response more."""


class RepositoryControl(Protocol):
    """What the ingress asks of the controller: the one call up the layers, passed in."""

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Return the index: name and, when known, version, state and reason of each model."""

    async def load(self, model_name: str, parameters: dict[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until that is done.

        Raises:
            TritonError: As Triton's repository API would.
        """

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        """Unload all versions of a model and wait until that is done."""


class SettingsControl(Protocol):
    """What the ingress asks of the controller about `ServerSettings`."""

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        """Make a change and wait until the ingresses have heard of it.

        Raises:
            TritonError: The change is refused.
        """


class ClusterControl(RepositoryControl, SettingsControl, Protocol):
    """All that the ingress asks of the controller."""

    async def router_reports(self) -> list[bytes]:
        """Return what the other routers have counted until now; see `deployments.routing.reports`.

        Raises:
            TritonError: There is no controller.
        """


class ControllerLink(ClusterControl, Protocol):
    """What a process with a router needs of the controller."""

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake."""

    async def report_wedged(self, name: str, incarnation: str, reason: str) -> None:
        """Have an instance looked at that does not answer any more, and replaced if it is wedged.

        Args:
            name: The instance's name, as its endpoint has it.
            incarnation: The process that does not answer.
            reason: What was seen.

        Raises:
            TritonError: There is no controller.
        """

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes]
    ) -> None:
        """Call ``update`` with each newer table, for ever, through restarts of the controller."""
