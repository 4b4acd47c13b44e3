# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The backend `llm`: language models that generate text for many requests at a time.

`execute` hands requests to the engine and returns when that has a slot for the next; what waits
waits in the pool's queue. Responses come from the engine's thread.

Triton: vllm_backend/src/model.py @ r25.10
"""

import logging
from typing import Any

import msgspec

from backends.api import openai_tensors
from backends.api.backend import Backend, ExecuteBatch, ExecuteRequest, LoadContext, ModelInstance
from backends.api.bytes_tensor import serialize_bytes
from backends.api.custom_metrics import CustomFamily
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse, ParameterValue, Tensor
from backends.config.pbtxt import edit
from backends.framework.auto_complete import describe
from backends.framework.signature import TensorInfo
from backends.llm.api import Usage
from backends.llm.chat.routes import CHAT, COMPLETIONS, OpenAiRoutes
from backends.llm.engines import check_model, open_engine
from backends.llm.files import ModelFiles, model_files
from backends.llm.metrics import LlmMetrics, MeasuredEngine
from backends.llm.pacing import paced
from backends.llm.parameters import tool_parser
from backends.llm.tensors import INPUTS, OUTPUTS, TEXT_INPUT, answer_tensors, element_of

logger = logging.getLogger(__name__)


class LlmBackend(Backend):
    """Runs language models with the engine that the config's parameter ``engine`` names."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, the decoupled policy and the routes of the OpenAI API.

        Raises:
            UnavailableError: The model's files are missing.
            InvalidArgumentError: They are none that an engine opens, or max_batch_size is not 0.
        """
        files = model_files(context)
        check_model(context, files)
        return completed(context.config, files)

    def load(self, context: LoadContext) -> ModelInstance:
        """Load the model and start its engine.

        Raises:
            UnavailableError: The model's files are missing.
            InvalidArgumentError: Files, parameters or the instance's kind are wrong, or the config
                is not that of a decoupled model without batches.
            InternalError: The engine cannot load the model.
        """
        return LlmInstance(context, model_files(context))


def completed(config: ModelConfig, files: ModelFiles) -> ModelConfig:
    """Return the config with what every language model has, where it lacks that.

    Raises:
        InvalidArgumentError: max_batch_size is not 0.
    """
    check_batch_size(config)
    routes = ",".join((CHAT, COMPLETIONS) if files.has_chat_template else (COMPLETIONS,))

    def change(message: Any) -> None:
        message.model_transaction_policy.decoupled = True
        message.parameters[openai_tensors.ROUTES].string_value = routes
        inputs = [*INPUTS, (openai_tensors.REQUEST, "BYTES")]
        named = {entry.name for entry in message.input}
        for name, datatype in inputs:
            if name not in named:
                entry = message.input.add()
                describe(entry, TensorInfo(name, datatype, (1,)), batched=False)
                entry.optional = True
        named = {entry.name for entry in message.output}
        for name, datatype, dim in (*OUTPUTS, (openai_tensors.RESPONSE, "BYTES", 1)):
            if name not in named:
                info = TensorInfo(name, datatype, (dim,))
                describe(message.output.add(), info, batched=False)

    return edit(config, change)


def check_batch_size(config: ModelConfig) -> None:
    """Refuse a batch dimension: the engine batches tokens of requests, not requests.

    Raises:
        InvalidArgumentError: max_batch_size is not 0.
    """
    if config.max_batch_size:
        raise InvalidArgumentError(
            f"model '{config.name}' has max_batch_size {config.max_batch_size}, expected 0: the "
            "engine batches by itself, up to its parameter max_num_seqs"
        )


class LlmInstance(ModelInstance):
    """One engine with one model.

    Args:
        context: What is loaded.
        files: The model's files.
    """

    def __init__(self, context: LoadContext, files: ModelFiles) -> None:
        config = context.config
        check_batch_size(config)
        if not config.decoupled:
            raise InvalidArgumentError(
                f"model '{config.name}' is not decoupled, which it must be: its responses come "
                "after execute. Set model_transaction_policy { decoupled: true }"
            )
        self._name = config.name
        self._version = str(context.version)
        parser = tool_parser(config)
        metrics = LlmMetrics(self._name, self._version)
        self._engine = MeasuredEngine(open_engine(context, files), metrics)
        self._routes = OpenAiRoutes(self._engine, parser)

    def execute(self, batch: ExecuteBatch) -> None:
        """Hand the requests to the engine, and return once it has a slot for another."""
        for given in batch.requests:
            request = paced(given)
            try:
                self._begin(request)
            except TritonError as error:
                request.fail(error)
            except Exception as error:
                logger.exception("model '%s' failed to begin a request", self._name)
                request.fail(InternalError(f"model '{self._name}' failed: {error}"))
        self._engine.wait_for_slot()

    def _begin(self, request: ExecuteRequest) -> None:
        given = {tensor.name: tensor for tensor in request.request.inputs}
        if openai_tensors.REQUEST not in given:
            if TEXT_INPUT not in given:
                raise InvalidArgumentError(
                    f"input '{TEXT_INPUT}' of model '{self._name}' is missing; expected it, or a "
                    f"body of the OpenAI API in input '{openai_tensors.REQUEST}'"
                )
            answer_tensors(self._engine, request, self._name, self._version)
            return
        route = request.request.parameters.get(openai_tensors.ROUTE)
        if not isinstance(route, str):
            raise InvalidArgumentError(
                f"request parameter '{openai_tensors.ROUTE}' is {route!r}, expected the route of "
                f"the body in input '{openai_tensors.REQUEST}' of model '{self._name}', such as "
                f"'{CHAT}'"
            )
        body = element_of(given, openai_tensors.REQUEST)
        self._routes.answer(route, body, _TensorReply(request, self._name, self._version))

    @property
    def has_readiness(self) -> bool:
        """Whether `is_ready` may say no."""
        return True

    def is_ready(self) -> bool:
        """Whether the engine can take steps."""
        return self._engine.is_healthy

    def custom_metrics(self) -> list[CustomFamily]:
        """Return what its requests have cost, and how busy the engine is."""
        return self._engine.families()

    def close(self) -> None:
        """Stop the engine."""
        self._engine.close()


class _TensorReply:
    """Sends objects of the OpenAI API as responses of a model.

    Args:
        request: What is answered.
        model: The model's name.
        version: Its version.
    """

    def __init__(self, request: ExecuteRequest, model: str, version: str) -> None:
        self._request = request
        self._model = model
        self._version = version

    @property
    def is_cancelled(self) -> bool:
        return self._request.is_cancelled

    def send(self, answer: dict[str, Any], usage: Usage | None) -> None:
        data = memoryview(serialize_bytes([msgspec.json.encode(answer)]))
        output = Tensor(openai_tensors.RESPONSE, "BYTES", (1,), data)
        request_id = self._request.request.id
        response = InferenceResponse(
            self._model, self._version, request_id, [output], _parameters(usage)
        )
        self._request.respond(response, final=usage is not None)

    def fail(self, error: TritonError) -> None:
        self._request.fail(error)


def _parameters(usage: Usage | None) -> dict[str, ParameterValue]:
    if usage is None:
        return {}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    }
