# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""SavedModels on OpenVINO, where TensorFlow is not installed.

It computes the same at a tenth of the memory and of the cost of a call, but has neither strings nor
tables, reads only the signature ``serving_default``, and lacks some operations: whatever it cannot
do is refused when the model is loaded, with the advice to install TensorFlow.
"""

import logging
from dataclasses import replace

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.errors import InternalError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.framework.files import existing_path
from backends.framework.saved_model import DEFAULT_SIGNATURE, SavedSignature, read_signature
from backends.framework.validation import validate
from backends.openvino.backend import loaded
from backends.openvino.model import Reader
from backends.openvino.signature import element_of
from backends.tensorflow.auto_complete import auto_complete
from backends.tensorflow.settings import (
    GRAPH_DEF,
    graph_tag,
    model_file,
    settings,
    signature_key,
)
from backends.tensorflow.validation import SAVED_MODEL_RULES

logger = logging.getLogger(__name__)

_ADVICE = "pip install manta-serve[tensorflow] to run it with TensorFlow"


class SavedModelOnOpenVino(Backend):
    """Runs SavedModels with OpenVINO."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from the SavedModel's signature.

        Raises:
            TritonError: As `backends.tensorflow.auto_complete.auto_complete`.
        """
        return auto_complete(context)

    def load(self, context: LoadContext) -> ModelInstance:
        """Convert and compile the model, and say so in the log.

        Raises:
            UnavailableError: The model's directory is missing.
            InternalError: It cannot be read.
            InvalidArgumentError: Config and model contradict each other, or a parameter is wrong.
            UnsupportedError: OpenVINO cannot run the model as the config wants it.
        """
        config, wanted = context.config, settings(context)
        path = existing_path(context, model_file(context))
        if config.platform == GRAPH_DEF:
            raise _refused(config.name, "it is a GraphDef")
        if context.kind != "CPU":
            raise _refused(config.name, f"its instance is KIND_{context.kind}")
        if graph_tag(context) not in {"", "serve"}:
            raise _refused(config.name, "TF_GRAPH_TAG names another graph than 'serve'")
        saved = read_signature(path, config.name, graph_tag(context), signature_key(context))
        _check(config.name, saved)
        validate(config, saved.signature, SAVED_MODEL_RULES)
        logger.warning(
            "TensorFlow is not installed: model '%s' runs on OpenVINO; %s", config.name, _ADVICE
        )
        # Parameters of OpenVINO mean nothing to this backend, but for its own number of threads.
        threads = {"INFERENCE_NUM_THREADS": str(wanted.intra_threads)}
        context = replace(context, config=replace(config, parameters=threads))
        try:
            return loaded(context, Reader(context, path))
        except InternalError as error:
            raise _refused(config.name, error.message) from error


def _check(model: str, saved: SavedSignature) -> None:
    if saved.name != DEFAULT_SIGNATURE:
        raise _refused(
            model, f"its signature is '{saved.name}', and OpenVINO reads only {DEFAULT_SIGNATURE}"
        )
    for info in (*saved.signature.inputs, *saved.signature.outputs):
        if info.datatype is None or element_of(info.datatype) is None:
            datatype = info.datatype or "unknown"
            raise _refused(model, f"its tensor '{info.name}' has datatype {datatype}")


def _refused(model: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"TensorFlow is not installed, and OpenVINO cannot run model '{model}' in its place: "
        f"{why}; {_ADVICE}"
    )
