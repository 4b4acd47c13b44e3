# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A backend library, and a model in it.

Triton: core/src/backend_model.cc TritonModel::Create @73aad7c
"""

import json
import logging

from backends.api.backend import LoadContext
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_json
from backends.custom import calls
from backends.custom.auto_complete import completed
from backends.custom.records import BackendRecord, ModelRecord, encode
from backends.custom.search import backend_directory, find_library, find_strategy

logger = logging.getLogger(__name__)


class OpenModel:
    """A library and a model in it.

    Attributes:
        config: The model's config, with what the library completed.
        handle: The model in the shim.
    """

    def __init__(self, context: LoadContext, *, may_complete: bool) -> None:
        self.config = context.config
        self._key = (context.model_dir, context.version)
        # First, as whoever has no library needs no compiler either.
        place = find_library(context)
        self._shim = calls.library()
        calls.pass_log_level()
        calls.PROCESS.set_config = self._take_config
        name = context.config.backend or context.config.platform
        settings = _settings(context, may_complete=may_complete)
        record = encode(BackendRecord(name, place.path, place.directory, settings))
        self._backend = calls.opened(self._shim.manta_open_backend, record, len(record))
        record = encode(_model_record(context, self.config, may_complete=may_complete))
        try:
            self.handle = calls.opened(
                self._shim.manta_open_model, self._backend, record, len(record)
            )
        except TritonError:
            self._finish("backend", self._shim.manta_close_backend(self._backend))
            raise

    def is_of(self, context: LoadContext) -> bool:
        """Whether this is the model to load."""
        return self._key == (context.model_dir, context.version)

    def complete(self, context: LoadContext) -> None:
        """Give the library the complete config, and load the model's batching library.

        Raises:
            TritonError: There is something wrong with that.
        """
        self.config = context.config
        record = encode(
            _model_record(context, self.config, may_complete=False, strategy=find_strategy(context))
        )
        calls.require(self._shim.manta_complete_model(self.handle, record, len(record)))

    def close(self) -> None:
        """Finalize both; what goes wrong is logged."""
        self._finish("model", self._shim.manta_close_model(self.handle))
        self._finish("backend", self._shim.manta_close_backend(self._backend))

    def _finish(self, what: str, code: int) -> None:
        if code:
            text = calls.said().decode(errors="replace")
            logger.error("failed finalizing %s of model '%s': %s", what, self.config.name, text)

    def _take_config(self, text: bytes) -> bytes:
        self.config = completed(self.config, text)
        return to_json(self.config)


def _settings(context: LoadContext, *, may_complete: bool) -> str:
    """Return what libraries are told of the server's flags.

    Triton: core/src/backend_model.cc ResolveBackendConfigs, SetBackendConfigDefaults @73aad7c
    """
    flags = {
        "auto-complete-config": "true" if may_complete else "false",
        "backend-directory": backend_directory(context),
        "default-max-batch-size": "4",
        "min-compute-capability": "6.000000",
    }
    return json.dumps({"cmdline": flags | dict(context.backend_config)})


def _model_record(
    context: LoadContext, config: ModelConfig, *, may_complete: bool, strategy: str = ""
) -> ModelRecord:
    sequences = config.sequence_batching
    states = () if sequences is None else sequences.states
    return ModelRecord(
        name=config.name,
        version=context.version,
        directory=context.model_dir,
        config=to_json(config).decode(),
        may_complete=may_complete,
        is_decoupled=config.decoupled,
        outputs=[output.name for output in config.output],
        states={
            state.output_name: state.input_name if state.use_same_buffer else "" for state in states
        },
        strategy=strategy,
    )
