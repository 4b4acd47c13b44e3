# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server for the commands that ask one: Manta's own HTTP port over models of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np

from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, Tensor, tensor_as_numpy, tensor_from_numpy
from tests.support.http_plane import FakePlane, running

Main = Callable[[Sequence[str]], int]


def instance(
    model: str, version: str, index: int, *, pid: int | None, state: str = "live", reason: str = ""
) -> dict[str, Any]:
    return {
        "model": model,
        "version": version,
        "name": f"{model}/{version}#{index}",
        "state": state,
        "reason": reason,
        "node": "host-a" if pid else "",
        "node_id": "a" if pid else "",
        "device": "CPU",
        "pid": pid,
        "restarts": 0,
    }


def half(request: InferenceRequest) -> list[Tensor]:
    (given,) = request.inputs
    array: Any = tensor_as_numpy(given)
    return [tensor_from_numpy("OUT", array / np.float16(2))]


class AskedPlane(FakePlane):
    """Has a model ``half``, and counts of the test's."""

    def __init__(self) -> None:
        super().__init__()
        self.repository.rows = [
            {"name": "simple", "version": "2", "state": "READY"},
            {"name": "simple", "version": "1", "state": "READY"},
            {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "no\nfile"},
            {"name": "absent"},
        ]
        self.repository.there = [
            instance("simple", "1", 0, pid=7),
            instance("simple", "2", 0, pid=8),
            instance("simple", "2", 1, pid=None, state="waiting", reason="waiting for a GPU"),
        ]
        self.counts: list[dict[str, Any]] = []
        config = ModelConfig(
            "half",
            platform="python",
            max_batch_size=8,
            input=(ModelInput("IN", "FP16", (2,)),),
            output=(ModelOutput("OUT", "FP16", (2,)),),
        )
        self.add(config, half)

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        return {"model_stats": self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]}


class Asked:
    """A running server and a way to ask it.

    Attributes:
        plane: What it serves.
        url: Where it is.
    """

    def __init__(self, plane: AskedPlane, port: int) -> None:
        self.plane = plane
        self.url = f"127.0.0.1:{port}"

    async def run(self, main: Main, *arguments: str) -> int:
        """Run a command that asks it, on a thread, and return its exit code."""
        return await asyncio.to_thread(main, [*arguments, "--url", self.url])


@contextlib.asynccontextmanager
async def asked() -> AsyncIterator[Asked]:
    plane = AskedPlane()
    async with running(plane=plane) as here:
        yield Asked(plane, here.port)
