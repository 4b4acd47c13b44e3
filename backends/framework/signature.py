# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's file tells of the tensors it takes and gives."""

from dataclasses import dataclass

from backends.api.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model.

    Attributes:
        name: Its name in the model.
        datatype: V2 name; None when the file does not tell.
        shape: Whole, batch dimension included, with -1 for what may vary; ``()`` is a scalar, None
            says that the file does not tell.
    """

    name: str
    datatype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether it is known to have no dimensions."""
        return self.shape == ()

    @property
    def is_known(self) -> bool:
        """Whether a config can be completed with it."""
        return self.datatype is not None and self.shape is not None


@dataclass(frozen=True, slots=True)
class Signature:
    """A model's inputs and outputs, in its order.

    Attributes:
        inputs: What it takes.
        outputs: What it gives.
        most_items: The largest first dimension that the file allows; None when it names none.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    most_items: int | None = None

    @property
    def supports_batching(self) -> bool:
        """Whether the first dimension of every tensor is known to vary."""
        return all(
            info.shape is not None and info.shape[:1] == (-1,)
            for info in (*self.inputs, *self.outputs)
        )

    @property
    def is_known(self) -> bool:
        """Whether the file tells datatype and shape of every tensor."""
        return all(info.is_known for info in (*self.inputs, *self.outputs))


def fed_by_scheduler(config: ModelConfig) -> set[str]:
    """Return names of inputs that no client sends: controls, states and batch inputs."""
    names = {name for batch_input in config.batch_input for name in batch_input.target_names}
    if config.sequence_batching is not None:
        names.update(control.name for control in config.sequence_batching.controls)
        names.update(state.input_name for state in config.sequence_batching.states)
    return names
