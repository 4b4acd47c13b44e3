# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Turns exceptions of OpenVINO into errors of the server."""

from collections.abc import Iterator
from contextlib import contextmanager

from backends.api.errors import InternalError

_NOISE = ("Exception from ", "Check '", "Please, check your environment")


def what(error: Exception) -> str:
    """Return what OpenVINO says, on one line and without the places in its source."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(_NOISE)]
    return " ".join(said or filter(None, lines))


@contextmanager
def doing(action: str, where: str) -> Iterator[None]:
    """Run calls of OpenVINO; what they raise is worded as Triton does.

    Triton: openvino_backend/src/openvino_utils.h RETURN_IF_OPENVINO_ERROR

    Args:
        action: What is done, for example ``reading model``.
        where: The model, its file, or whatever else tells where.

    Raises:
        InternalError: OpenVINO failed.
    """
    try:
        yield
    # Its Python classes raise RuntimeError; its binding ValueError and TypeError.
    except (RuntimeError, ValueError, TypeError) as error:
        raise InternalError(f"openvino error in {action} : {what(error)} ({where})") from error
