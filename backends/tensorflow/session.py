# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads graphs into TensorFlow sessions.

The session is one of TensorFlow 1, as in Triton: it runs models of both generations, by the names
their tensors have in the graph, and a call costs less than one of a tf.function.

Triton: tensorflow_backend/src/mirror/tensorflow_backend_tf.cc
"""

import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# Read while TensorFlow is imported; its chatter otherwise begins every instance's log.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, UnavailableError
from backends.framework.saved_model import SavedSignature
from backends.framework.signature import Signature, TensorInfo
from backends.tensorflow.settings import Settings

v1: Final = tf.compat.v1

_DEFAULT_TAG = "serve"
_STACK = "\n\nOriginal stack trace"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A graph in a session.

    Attributes:
        session: The session.
        signature: What it takes and gives.
        tensors: By the names of those, the names they have in the graph.
    """

    session: Any
    signature: Signature
    tensors: Mapping[str, str]


def what(error: Exception) -> str:
    """Return what TensorFlow says, on one line and without stacks of the model's author."""
    return " ".join(str(getattr(error, "message", error)).partition(_STACK)[0].split())


@contextmanager
def _loading(context: LoadContext, path: str) -> Any:
    try:
        yield
    # OpError of TensorFlow, and what its Python code and protobuf raise: nothing in common.
    except Exception as error:
        raise InternalError(
            f"failed to load model '{context.config.name}': {what(error)} ('{path}')"
        ) from error


def load_saved_model(
    context: LoadContext, path: str, tag: str, saved: SavedSignature, settings: Settings
) -> Loaded:
    """Load a SavedModel with its variables and tables.

    Args:
        context: What is loaded.
        path: The directory.
        tag: Tag of the graph; empty for the usual one.
        saved: The signature to run.
        settings: How the config wants the session.

    Raises:
        InternalError: TensorFlow cannot load it.
        UnavailableError: The instance is to run on a GPU, and TensorFlow sees none.
    """
    session = _session(context, settings)
    with _loading(context, path), session.graph.as_default():
        v1.saved_model.load(session, [tag or _DEFAULT_TAG], path)
        _initialise(session, settings)
    return Loaded(session, saved.signature, saved.tensors)


def load_graph_def(context: LoadContext, path: str, settings: Settings) -> Loaded:
    """Load a frozen graph; its placeholders are inputs, all other operations may be outputs.

    Raises:
        InternalError: TensorFlow cannot load it.
        UnavailableError: The instance is to run on a GPU, and TensorFlow sees none.
    """
    session = _session(context, settings)
    with _loading(context, path), session.graph.as_default():
        definition = v1.GraphDef()
        definition.ParseFromString(Path(path).read_bytes())
        v1.import_graph_def(definition, name="")
        _initialise(session, settings)
    sides: dict[bool, list[TensorInfo]] = {True: [], False: []}
    for operation in session.graph.get_operations():
        if operation.outputs:
            sides[operation.type == "Placeholder"].append(TensorInfo(operation.name))
    signature = Signature(tuple(sides[True]), tuple(sides[False]))
    names = [info.name for info in (*signature.inputs, *signature.outputs)]
    return Loaded(session, signature, {name: f"{name}:0" for name in names})


def _initialise(session: Any, settings: Settings) -> None:
    graph = session.graph
    operations = [graph.get_operation_by_name(name) for name in settings.init_operations]
    if operations:
        session.run(operations)


def _session(context: LoadContext, settings: Settings) -> Any:
    if context.kind == "GPU" and not tf.config.list_physical_devices("GPU"):
        raise UnavailableError(
            f"model instance '{context.instance_name}' asked for GPU {context.device_id} but "
            "TensorFlow sees no GPU; check the driver, install a TensorFlow for GPUs, or use "
            "KIND_CPU"
        )
    with _loading(context, ", ".join(settings.operation_libraries)):
        for library in settings.operation_libraries:
            tf.load_op_library(library)
    return v1.Session(graph=v1.Graph(), config=_config(context, settings))


def _config(context: LoadContext, settings: Settings) -> Any:
    config = v1.ConfigProto(
        intra_op_parallelism_threads=settings.intra_threads,
        inter_op_parallelism_threads=settings.inter_threads,
        use_per_session_threads=settings.own_threads,
        allow_soft_placement=settings.soft_placement,
    )
    if context.kind == "CPU":
        config.device_count["GPU"] = 0
    elif context.kind == "GPU":
        config.gpu_options.visible_device_list = str(context.device_id)
    if settings.gpu_memory_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = settings.gpu_memory_fraction
    else:
        config.gpu_options.allow_growth = True
    config.graph_options.optimizer_options.global_jit_level = settings.jit_level
    if settings.mixed_precision:
        # RewriterConfig.ON.
        config.graph_options.rewrite_options.auto_mixed_precision = 1
    return config
