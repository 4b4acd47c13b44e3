# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model that is loaded, whatever its file holds: something to call, and where its tensors go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, UnavailableError
from backends.framework.signature import Signature

# What a call returns: results by position, or by key.
Results = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A loaded model.

    Attributes:
        call: Takes a tensor or list of ``str`` for each of ``inputs``.
        inputs: Names of the config, in the order of the arguments.
        outputs: For each output and state of the config its position in the results, where those
            have no names of their own.
        device: Where inputs have to be; the CPU for models that place themselves.
        signature: What the file tells of the config's tensors.
        mutates: Whether a call may write to its arguments, or later to its results.
        failure: What stands before the message of an error.
    """

    call: Callable[..., Results]
    inputs: tuple[str, ...]
    outputs: Mapping[str, int]
    device: torch.device
    signature: Signature = Signature((), ())
    mutates: bool = False
    failure: str = "PyTorch execute failure: "


def device_of(context: LoadContext) -> torch.device:
    """Return the device of an instance; the CPU for models that place themselves.

    Raises:
        UnavailableError: It is a GPU that this PyTorch cannot use.
    """
    if context.kind != "GPU":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UnavailableError(
            f"model instance '{context.instance_name}' is KIND_GPU but PyTorch {torch.__version__} "
            "sees no GPU; install a PyTorch with CUDA and check the driver, or use KIND_CPU"
        )
    return torch.device("cuda", context.device_id)


def load_failure(context: LoadContext, error: Exception) -> InternalError:
    """Return the error of a model that PyTorch cannot load."""
    return InternalError(f"failed to load model '{context.config.name}': {message_of(error)}")


def message_of(error: Exception) -> str:
    """Return what an exception of PyTorch says, without the frames of its C++."""
    return str(error).partition("\nException raised from ")[0].strip()
