# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Turns exceptions of ONNX Runtime into errors of the server."""

import re

from backends.api.errors import InternalError

_STATUS = re.compile(r"^\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)


def runtime_error(error: Exception, where: str) -> InternalError:
    """Return ONNX Runtime's message as Triton words it, and where it happened.

    Triton: onnxruntime_backend/src/onnxruntime_utils.h RETURN_IF_ORT_ERROR
    """
    status = _STATUS.match(str(error))
    if status is None:
        return InternalError(f"onnx runtime error: {error} ({where})")
    return InternalError(f"onnx runtime error {status[1]}: {status[2].strip()} ({where})")
