# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow backend.

Triton: tensorflow_backend/src/tensorflow.cc ModelInstanceState::ProcessRequests,
ValidateTRITONTFModel
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.errors import InternalError, TritonError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.framework.files import existing_path
from backends.framework.inputs import Array, Feed
from backends.framework.instance import TensorInstance
from backends.framework.saved_model import read_signature
from backends.framework.signature import fed_by_scheduler
from backends.framework.validation import validate
from backends.tensorflow.auto_complete import auto_complete
from backends.tensorflow.session import Loaded, load_graph_def, load_saved_model, what
from backends.tensorflow.settings import (
    GRAPH_DEF,
    graph_tag,
    model_file,
    settings,
    signature_key,
)
from backends.tensorflow.validation import GRAPH_DEF_RULES, SAVED_MODEL_RULES

# Combinations of inputs and outputs whose calls are kept.
_MOST_CALLS = 16


class TensorFlowBackend(Backend):
    """Runs SavedModels and GraphDefs."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from a SavedModel's signature.

        Raises:
            TritonError: As `backends.tensorflow.auto_complete.auto_complete`.
        """
        return auto_complete(context)

    def load(self, context: LoadContext) -> ModelInstance:
        """Load the graph into a session on the instance's device.

        Raises:
            UnavailableError: The file, or the device, is missing.
            InternalError: TensorFlow cannot load the model.
            InvalidArgumentError: Config and model contradict each other, or a parameter is wrong.
            UnsupportedError: The config asks for an accelerator that is not here.
        """
        path = existing_path(context, model_file(context))
        wanted = settings(context)
        if context.config.platform == GRAPH_DEF:
            loaded = load_graph_def(context, path, wanted)
            validate(context.config, loaded.signature, GRAPH_DEF_RULES)
        else:
            tag = graph_tag(context)
            saved = read_signature(path, context.config.name, tag, signature_key(context))
            validate(context.config, saved.signature, SAVED_MODEL_RULES)
            loaded = load_saved_model(context, path, tag, saved, wanted)
        return TensorFlowInstance(context, loaded)


class TensorFlowInstance(TensorInstance):
    """One session."""

    def __init__(self, context: LoadContext, loaded: Loaded) -> None:
        # A variable that is assigned what the session is given may hold that very memory.
        super().__init__(context, loaded.signature, writable_inputs=True)
        config = context.config
        names = {entry.name for entry in config.input} | {entry.name for entry in config.output}
        for name in sorted(names | fed_by_scheduler(config)):
            if not loaded.tensors.get(name):
                raise UnsupportedError(
                    f"model '{config.name}' has no tensor '{name}' of its own in its graph; sparse "
                    "and composite tensors are not supported"
                )
        self._session = loaded.session
        self._tensors = loaded.tensors
        self._calls: dict[tuple[tuple[str, ...], tuple[str, ...]], Callable[..., Any]] = {}

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Run the part of the graph that leads to the outputs."""
        call = self._call(tuple(feed), tuple(outputs))
        given = list(feed.values())
        return [_own(result, given) for result in call(*given)]

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return TensorFlow's message on one line."""
        return InternalError(f"{what(error)} ({where})")

    def close(self) -> None:
        """Close the session."""
        self._calls.clear()
        self._session.close()

    def _call(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Callable[..., Any]:
        found = self._calls.get((inputs, outputs))
        if found is None:
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            found = self._session.make_callable(
                [self._tensors[name] for name in outputs], [self._tensors[name] for name in inputs]
            )
            self._calls[inputs, outputs] = found
        return found


def _own(result: Any, given: list[Array]) -> Array:
    """Return a result as an array that shares no memory with what the session was given."""
    if isinstance(result, (bytes, str)):
        return np.array(result, dtype=np.object_)
    array = np.asarray(result)
    if any(np.may_share_memory(array, each) for each in given):
        return array.copy()
    return array
