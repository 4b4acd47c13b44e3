# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller of Ray Serve, a named actor that Ray restarts without limit."""

import contextlib
from typing import Any, Final

import ray
from ray.exceptions import RayError

_NAME: Final = "SERVE_CONTROLLER_ACTOR"
_NAMESPACE: Final = "serve"


def find_serve_controller() -> Any:
    """Return its handle; None when there is no Serve. Not on an event loop."""
    try:
        return ray.get_actor(_NAME, namespace=_NAMESPACE)
    except ValueError:
        return None


def restart_serve_controller() -> None:
    """Kill it, so that Ray starts it again; replicas serve on. Not on an event loop."""
    handle = find_serve_controller()
    if handle is not None:
        # One that has just ended is started again as well.
        with contextlib.suppress(RayError):
            ray.kill(handle, no_restart=False)
