# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sink of a request that an instance serves out of clients' shared memory."""

from collections.abc import Collection

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.shared_memory.uses import RegionUses
from deployments.tracing.passing_sink import PassingSink


class UsingSink(PassingSink):
    """Passes a request's outcomes on, and says when its regions are no longer used.

    Args:
        sink: Takes the outcomes.
        uses: Where the request was counted.
        names: The regions it uses.
        copied_bytes: How much of them its inputs are.
    """

    __slots__ = ("_copied_bytes", "_names", "_uses")

    def __init__(
        self, sink: ResponseSink, uses: RegionUses, names: Collection[str], copied_bytes: int
    ) -> None:
        super().__init__(sink)
        self._uses = uses
        self._names = names
        self._copied_bytes = copied_bytes

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; before the last one the regions are given back."""
        if final:
            self._uses.end(self._names, self._copied_bytes)
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on; before the last one the regions are given back."""
        if final:
            self._uses.end(self._names, self._copied_bytes)
        self.sink.fail(error, final=final)
