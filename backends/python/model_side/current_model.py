# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The model of this process, as its own code asks for it; a process serves one model."""

from dataclasses import dataclass, field

from backends.api.backend import Pause
from backends.api.model_caller import ModelCaller
from backends.python.model_side.failure import TritonModelException


@dataclass(slots=True)
class CurrentModel:
    """What the host tells the model's side about the model.

    Attributes:
        version_dir: Version directory of the model loaded last.
        instance_name: Triton's instance name, ``<group>_<k>``.
        caller: What the model calls other models with; None while it may not.
        control: What the model controls the repository with; None outside a server.
        pause: What the model waits for called models in; see `LoadContext.pause`.
        awaited: The calls that coroutines wait for, where that matters.
    """

    version_dir: str = ""
    instance_name: str = ""
    caller: ModelCaller | None = None
    control: ModelCaller | None = None
    pause: Pause | None = None
    awaited: set[object] = field(default_factory=set)


CURRENT = CurrentModel()


def refused(what: str, reason: str) -> TritonModelException:
    """Return the exception for something that Triton passes from the model to the server.

    Args:
        what: What failed.
        reason: What the server says.
    """
    return TritonModelException(
        f"{what}: Failed to process the request for model '{CURRENT.instance_name}',"
        f" message: {reason}"
    )
