# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses what runs TensorFlow's models: TensorFlow, or where it is not installed OpenVINO."""

from importlib.util import find_spec

from backends.api.backend import Backend


def tensorflow_backend() -> Backend:
    """Return the backend.

    Raises:
        ModuleNotFoundError: Neither TensorFlow nor OpenVINO is installed.
    """
    if is_installed("tensorflow") or not is_installed("openvino"):
        from backends.tensorflow.backend import TensorFlowBackend  # noqa: PLC0415 - 7 s

        return TensorFlowBackend()
    from backends.tensorflow.on_openvino import SavedModelOnOpenVino  # noqa: PLC0415 - 0.2 s

    return SavedModelOnOpenVino()


def is_installed(package: str) -> bool:
    """Whether a package could be imported; it is not."""
    return find_spec(package) is not None
