# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance of a PyTorch model, whatever its file holds.

Triton: pytorch_backend/src/pt/model_instance_state.cc Execute, ReadOutputTensors
"""

import gc
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.framework.inputs import Array, Feed
from backends.framework.instance import TensorInstance
from backends.pytorch.datatypes import DATATYPE, TORCH_DTYPE, as_array, as_tensor
from backends.pytorch.program import Program, Results, message_of
from backends.pytorch.settings import Settings
from backends.pytorch.weights import remove_unused_weights

logger = logging.getLogger(__name__)

# How long a process lives on that has an error to tell.
_ANSWERING_S = 1.0
# Smaller ones are copied into the response anyway.
_MAY_BE_VIEWED_BYTES = 16384


class TorchInstance(TensorInstance):
    """One loaded model."""

    def __init__(self, context: LoadContext, program: Program, settings: Settings) -> None:
        super().__init__(
            context, program.signature, decodes_strings=True, writable_inputs=program.mutates
        )
        self._program = program
        self._settings = settings
        # It may be entered again and again.
        self._mode: AbstractContextManager[None] = (
            torch.inference_mode() if settings.inference_mode else torch.no_grad()
        )
        self._device = None if program.device.type == "cpu" else program.device
        self._is_broken = False
        self._places = program.outputs
        config = context.config
        self._wanted = {each.name: TORCH_DTYPE.get(each.datatype) for each in config.output}
        if config.sequence_batching is not None:
            for state in config.sequence_batching.states:
                self._wanted[state.output_name] = TORCH_DTYPE.get(state.datatype)
        self._cleans_cache = settings.cleans_cache and torch.cuda.is_available()

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Run the model once.

        Raises:
            InvalidArgumentError: An output is another than the config says, or there is none.
        """
        arguments = [self._argument(feed.get(name)) for name in self._program.inputs]
        with self._mode:
            if self._settings.autocast is None:
                results = self._program.call(*arguments)
            else:
                with torch.autocast(self._program.device.type, dtype=self._settings.autocast):
                    results = self._program.call(*arguments)
            made = [self._read(name, results, arguments) for name in outputs]
        if self._cleans_cache:
            torch.cuda.empty_cache()
        return made

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return PyTorch's message as Triton words it; ends a process whose GPU context is broken.

        No call to the GPU can succeed in it any more, so it is replaced, once it has answered.
        """
        message = f"{self._program.failure}{message_of(error)} ({where})"
        if isinstance(error, torch.AcceleratorError) and "out of memory" not in message:
            self._is_broken = True
            logger.error("the process of '%s' ends: %s", self._name, message)
            threading.Timer(_ANSWERING_S, os._exit, (1,)).start()
        return InternalError(message)

    @property
    def has_readiness(self) -> bool:
        """Whether its GPU may fail it."""
        return self._device is not None

    def is_ready(self) -> bool:
        """Whether its GPU has not failed it."""
        return not self._is_broken

    def close(self) -> None:
        """Free the model and what PyTorch keeps of the GPU's memory."""
        del self._program
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if self._settings.shares_weights:
            remove_unused_weights()

    def _argument(self, array: Array | None) -> Any:
        if array is None:
            # An optional input that was not given.
            return None
        if array.dtype.kind == "O":
            return array.ravel().tolist()
        tensor = as_tensor(array)
        return tensor if self._device is None else tensor.to(self._device)

    def _read(self, name: str, results: Results, arguments: list[Any]) -> Array:
        result = self._result(name, results)
        if isinstance(result, torch.Tensor):
            self._check(name, result)
            array = as_array(result)
            return array.copy() if self._may_change(result, arguments) else array
        if isinstance(result, list) and all(isinstance(text, str) for text in result):
            return np.array([text.encode() for text in result], dtype=np.object_)
        raise InvalidArgumentError(f"output '{name}' must be of type Tensor or List[str].")

    def _result(self, name: str, results: Results) -> Any:
        if isinstance(results, Mapping):
            if name in results:
                return results[name]
            raise InvalidArgumentError(
                f"The output {name} in the model configuration refers to a key which doesn't "
                f"exist. This model has {', '.join(map(repr, results))}"
            )
        place = self._places[name]
        if 0 <= place < len(results):
            return results[place]
        raise InvalidArgumentError(
            f"The output {name} in the model configuration refers to an output index which "
            f"doesn't exist. This model has {len(results)} outputs"
        )

    def _check(self, name: str, tensor: torch.Tensor) -> None:
        wanted = self._wanted[name]
        if tensor.dtype is not wanted:
            raise InvalidArgumentError(
                "configuration expects datatype "
                f"TYPE_{'STRING' if wanted is None else DATATYPE[wanted]} for output '{name}', "
                f"model provides TYPE_{DATATYPE.get(tensor.dtype, tensor.dtype)}"
            )
        if not tensor.ndim:
            raise InvalidArgumentError(f"output '{name}' is a scalar which is not supported.")

    def _may_change(self, result: torch.Tensor, arguments: list[Any]) -> bool:
        """Whether an output may lie in memory that is not its own."""
        if result.nbytes < _MAY_BE_VIEWED_BYTES or not result.is_cpu:
            return False
        if self._program.mutates:
            return True
        own = result.untyped_storage().data_ptr()
        return any(
            isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() == own
            for each in arguments
        )
