# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Starts, owns and ends a running server; `Server` is the Python API."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.server.server import Server

__all__ = ["Server"]


def __getattr__(name: str) -> Any:
    # Late: Serve takes a second to import, and most of this room does without.
    if name != "Server":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from cluster.server.server import Server  # noqa: PLC0415

    return Server
