# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The OpenVINO backend.

Triton: openvino_backend/src/openvino.cc ModelInstanceState::ProcessRequests,
ModelState::AutoCompleteConfig
"""

import logging
import math
import time
from dataclasses import replace
from typing import Any, cast

import numpy as np

from backends.api.backend import Backend, ExecuteBatch, LoadContext, ModelInstance
from backends.api.errors import InternalError, TritonError, UnavailableError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.api.request import SEQUENCE_START
from backends.framework.auto_complete import default_max_batch_size, filled, is_complete
from backends.framework.inputs import Array, Feed, require_all
from backends.framework.instance import TensorInstance
from backends.framework.signature import Signature
from backends.framework.validation import validate
from backends.openvino.failure import doing, what
from backends.openvino.inference import InferRequest
from backends.openvino.model import MODEL_FILE, Reader, fixed_batch
from backends.openvino.properties import device_of, is_yes
from backends.openvino.recompilation import CompilationBudget
from backends.openvino.shape_check import shape_check
from backends.openvino.signature import RULES, has_batch_layout, port_name, read_signature

logger = logging.getLogger(__name__)

_PADDING = "ENABLE_BATCH_PADDING"


class OpenVinoBackend(Backend):
    """Runs models that OpenVINO reads."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from the model.

        A model batches when the first dimension of every tensor may vary, or when the layout of
        every tensor begins with ``N``.

        Raises:
            UnavailableError: The model's file is missing.
            InternalError: OpenVINO cannot read it.
            UnsupportedError: It has tensors of a datatype that V2 lacks.
        """
        if is_complete(context.config):
            return context.config
        return completed(context, Reader(context, context.model_path(MODEL_FILE)).model)

    def load(self, context: LoadContext) -> ModelInstance:
        """Compile the model for the instance's device.

        Raises:
            UnavailableError: The file or the device is missing.
            InternalError: OpenVINO cannot read or compile the model.
            InvalidArgumentError: Config and model contradict each other, a parameter is wrong, or
                the instance is not KIND_CPU.
            UnsupportedError: The model keeps a state that the config gives no sequences for.
        """
        device_of(context)
        return loaded(context, Reader(context, context.model_path(MODEL_FILE)))


def completed(context: LoadContext, model: Any) -> ModelConfig:
    """Return the context's config, completed from an ``openvino.Model``.

    Raises:
        UnsupportedError: The model has tensors of a datatype that V2 lacks.
        InvalidArgumentError: ``default-max-batch-size`` is no number.
    """
    config = context.config
    signature = read_signature(model, _names(config))
    batches = signature.supports_batching or has_batch_layout(model)
    size = config.max_batch_size
    if not batches and size:
        logger.warning(
            "model layout for model %s does not support batching while non-zero max_batch_size is "
            "specified",
            config.name,
        )
    elif batches and not size:
        size = max(default_max_batch_size(context.backend_config), 1)
        logger.warning(
            "autofilled max_batch_size to %d for model '%s' since batching is supported but no "
            "max_batch_size is specified in model configuration. Must specify max_batch_size to "
            "utilize autofill with a larger max batch size",
            size,
            config.name,
        )
    return filled(config, signature, size, joins=batches)


def loaded(context: LoadContext, reader: Reader) -> "OpenVinoInstance":
    """Return an instance of a model that was read.

    Raises:
        TritonError: As `OpenVinoBackend.load` does.
    """
    config = context.config
    reader.configure()
    signature = read_signature(reader.model, _names(config))
    batch = fixed_batch(reader.model) if config.max_batch_size > 0 else 0
    validate(config, _batched(signature) if batch else signature, RULES)
    keeps_state = bool(reader.model.get_variables())
    if keeps_state:
        _check_sequences(config)
    return OpenVinoInstance(context, reader, signature, batch, keeps_state=keeps_state)


def _names(config: ModelConfig) -> set[str]:
    return {entry.name for entry in config.input} | {entry.name for entry in config.output}


def _batched(signature: Signature) -> Signature:
    """Return a signature of fixed batch size as that of a model that batches."""
    inputs, outputs = (
        tuple(replace(info, shape=(-1, *(info.shape or ())[1:])) for info in side)
        for side in (signature.inputs, signature.outputs)
    )
    return Signature(inputs, outputs)


def _check_sequences(config: ModelConfig) -> None:
    batching = config.sequence_batching
    slots = max(1, config.max_batch_size)
    if batching is None or batching.strategy != "direct" or slots != 1:
        raise UnsupportedError(
            f"model '{config.name}' keeps a state from one inference to the next, which belongs to "
            "one sequence at a time; it needs sequence_batching with the direct strategy and a "
            "max_batch_size of at most 1. For more sequences at a time add instances"
        )


class OpenVinoInstance(TensorInstance):
    """One compiled model with one infer request.

    Args:
        context: What is loaded.
        reader: The model, read and configured.
        signature: Its tensors.
        batch: The only batch size it takes; 0 when it takes any.
        keeps_state: Whether it has variables, which a sequence's start resets.
    """

    def __init__(
        self,
        context: LoadContext,
        reader: Reader,
        signature: Signature,
        batch: int,
        *,
        keeps_state: bool,
    ) -> None:
        super().__init__(context, signature)
        names = _names(context.config)
        self._context = context
        self._path = reader.path
        self._request: InferRequest | None = _request_of(context, reader)
        self._input_index = _by_name(reader.model.inputs, names)
        self._output_index = _by_name(reader.model.outputs, names)
        self._shapes = shape_check(reader.model)
        self._batch = batch
        self._pads = is_yes(context, _PADDING)
        self._keeps_state = keeps_state
        self.compilation_budget = CompilationBudget()

    def execute(self, batch: ExecuteBatch) -> None:
        """Run the batch; one that starts a sequence finds the model's state as it was saved."""
        if self._keeps_state and any(
            each.request.flags & SEQUENCE_START for each in batch.requests
        ):
            self._usable_request().reset_state()
        super().execute(batch)

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Run the model, padded if it takes one batch size only and the config allows it.

        Raises:
            InvalidArgumentError: An input is left out.
            InternalError: The batch has another size than the model's.
            UnavailableError: The model has to be compiled anew, and that not yet.
        """
        # Also one that the config calls optional: OpenVINO knows no value to put in its place.
        require_all(self._name, self._input_index, feed)
        if not self._batch:
            return self._infer(feed, outputs)
        size = next(iter(feed.values())).shape[0]
        if size == self._batch:
            return self._infer(feed, outputs)
        if size > self._batch or not self._pads:
            raise InternalError(
                f"expected requests with batch size '{self._batch}', got '{size}'... this error "
                f"can be avoided by setting '{_PADDING}' parameter in model configuration to 'YES' "
                f"at a performance cost. Model '{self._name}' takes batches of this size only"
            )
        padded = {name: _padded(array, self._batch) for name, array in feed.items()}
        return [array[:size] for array in self._infer(padded, outputs)]

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return OpenVINO's message as Triton words it."""
        return InternalError(f"openvino error in running inference : {what(error)} ({where})")

    def close(self) -> None:
        """Free the infer request and the compiled model."""
        self._request = None

    def _infer(self, feed: Feed, outputs: list[str]) -> list[Array]:
        if self._shapes is not None:
            self._shapes.check([feed[name].shape for name in self._input_index])
        return self._usable_request().infer(
            {index: feed[name] for name, index in self._input_index.items()},
            [self._output_index[name] for name in outputs],
        )

    def _usable_request(self) -> InferRequest:
        """Return the infer request, of a model that is compiled anew if an inference has failed.

        What failed may have done so over values only, which no check of shapes foresees.

        Raises:
            TritonError: The model cannot be compiled, or not yet.
        """
        request = cast("InferRequest", self._request)
        if not request.has_failed:
            return request
        wait_s = self.compilation_budget.wait_s()
        if wait_s > 0:
            raise UnavailableError(
                f"model '{self._name}' has to be compiled anew, because inferences failed inside "
                f"OpenVINO, and that takes its time too often; send the request again in "
                f"{math.ceil(wait_s)} s"
            )
        begun_s = time.monotonic()
        try:
            reader = Reader(self._context, self._path)
            reader.configure()
            renewed = _request_of(self._context, reader)
        finally:
            self.compilation_budget.spend(time.monotonic() - begun_s)
        if self._keeps_state:
            renewed.take_state(request)
        self._request = renewed
        return renewed


def _request_of(context: LoadContext, reader: Reader) -> InferRequest:
    compiled, run = reader.compiled()
    with doing("creating infer request object", f"model '{context.config.name}'"):
        return InferRequest(compiled.create_infer_request(), run, reader.model.inputs)


def _by_name(ports: Any, names: set[str]) -> dict[str, int]:
    return {port_name(port, names): index for index, port in enumerate(ports)}


def _padded(array: Array, size: int) -> Array:
    padded = np.zeros((size, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    return padded
