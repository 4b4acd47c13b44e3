# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a client can do, whatever its protocol."""

from collections.abc import Mapping
from typing import Any, Protocol

from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.rows import Row
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.records import Listener, Request


class Client(Protocol):
    """A server's port; all questions raise UnavailableError when the server refuses them."""

    async def open(self, count: int) -> None:
        """Connect, for so many requests at once."""

    async def close(self) -> None:
        """Close all connections."""

    def encode(self, form: Form, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request."""

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request that was encoded."""

    async def metadata(self, model: Model) -> Mapping[str, Any]:
        """Return the model's metadata, as JSON has it."""

    async def config(self, model: Model) -> Mapping[str, Any]:
        """Return the model's config, as JSON has it."""

    async def statistics(self, model: Model | None = None) -> Mapping[str, Any]:
        """Return the statistics of a model or of all, as JSON has them."""

    async def set_tracing(self, model: Model, settings: Mapping[str, str]) -> None:
        """Change settings of the model's traces, by their names."""

    async def register_memory(self, name: str, key: str, size_bytes: int) -> None:
        """Register a region of system shared memory."""

    async def unregister_memory(self, name: str) -> None:
        """Unregister a region."""
