# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime backend.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelInstanceState::ProcessRequests
"""

from typing import Any

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.framework import auto_complete
from backends.framework.inputs import Array, Feed
from backends.framework.instance import TensorInstance
from backends.framework.signature import Signature
from backends.framework.validation import validate
from backends.onnxruntime.failure import runtime_error
from backends.onnxruntime.options import run_options
from backends.onnxruntime.session import open_for_reading, open_session
from backends.onnxruntime.signature import RULES, read_signature


class OnnxRuntimeBackend(Backend):
    """Runs ONNX models."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from the model.

        Raises:
            UnavailableError: The model's file, or a library of operators, is missing.
            InternalError: ONNX Runtime cannot read it.
            UnsupportedError: It has inputs or outputs that are no tensors.
            InvalidArgumentError: It contradicts max_batch_size.
        """
        if auto_complete.is_complete(context.config):
            return context.config
        signature = read_signature(open_for_reading(context))
        return auto_complete.completed(context.config, signature, context.backend_config)

    def load(self, context: LoadContext) -> ModelInstance:
        """Open a session on the instance's device.

        Raises:
            UnavailableError: A file is missing, or the device or an accelerator cannot be used.
            InternalError: ONNX Runtime cannot load the model.
            UnsupportedError: The config asks for an execution accelerator that is not there.
            InvalidArgumentError: Config and model contradict each other, or a parameter is wrong.
        """
        session = open_session(context)
        signature = read_signature(session)
        validate(context.config, signature, RULES)
        return OnnxRuntimeInstance(context, session, signature)


class OnnxRuntimeInstance(TensorInstance):
    """One session."""

    def __init__(self, context: LoadContext, session: Any, signature: Signature) -> None:
        # Strings of ONNX are text.
        super().__init__(context, signature, decodes_strings=True)
        self._session = session
        self._options = run_options(context)

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Run the session; what it gives is the caller's own."""
        arrays: list[Array] = self._session.run(outputs, feed, self._options)
        return arrays

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return ONNX Runtime's message as Triton words it."""
        return runtime_error(error, where)

    def close(self) -> None:
        """Free the session and its memory arena."""
        self._session = None
