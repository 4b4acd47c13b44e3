# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How an infer request is run, so that what fails is told.

With OpenVINO 2026.4 ``infer()`` returns as if all were well when an operation of a model with
dynamic shapes refuses what it is given, if the stream it runs on has one thread: the outputs then
are those of the request before, and what was left undone may crash the process later. How many
threads a stream has depends on the cores the process may use, too. ``infer()`` is safe in the
caller's own thread (no streams), and ``start_async()`` with ``wait()`` is anywhere, which costs two
switches of threads.
"""

from collections.abc import Callable, Mapping
from typing import Any

from backends.openvino.properties import CPU, STREAMS

Run = Callable[[Any], None]


def run_of(device: str, wanted: Mapping[str, object]) -> Run:
    """Return what runs an infer request to its end and raises whatever goes wrong.

    Args:
        device: The device its model was compiled for.
        wanted: The properties it was compiled with.
    """
    return _in_turn if device == CPU and wanted.get(STREAMS) == "0" else _apart


def _in_turn(request: Any) -> None:
    request.infer()


def _apart(request: Any) -> None:
    request.start_async()
    request.wait()
