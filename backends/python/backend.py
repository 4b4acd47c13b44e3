# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The Python backend: loads ``model.py`` and feeds it batches.

Triton runs each instance in a stub process; here the instance's own process plays that part, so a
call costs no serialisation.

Triton: python_backend/src/pb_stub.cc Stub::Initialize, ProcessRequests, ProcessReturnedResponses
"""

import inspect
import json
import logging
import time
from typing import Any

from backends.api.backend import Backend, ExecuteBatch, LoadContext, ModelInstance
from backends.api.custom_metrics import CustomFamily
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.errors import TritonError as ApiError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit, from_json, to_json, to_message
from backends.python.coroutines import CoroutineRunner, run_elsewhere
from backends.python.loading import MODEL_FILE, load_model_class
from backends.python.model_side import calls, metrics
from backends.python.model_side.failure import TritonModelException, describe
from backends.python.model_side.model_config import ModelConfig as AutoCompleteConfig
from backends.python.model_side.request import ReceivedRequest
from backends.python.model_side.response import AwaitedAnswer, InferenceResponse, ResponseWriter

logger = logging.getLogger(__name__)

# As long as Triton waits for a model's is_ready.
READY_TIMEOUT_S = 5.0


class PythonBackend(Backend):
    """Runs a class TritonPythonModel.

    Args:
        library: Path of the file of a Python-based backend, whose class runs every model of that
            backend; empty for models that bring their own.
    """

    def __init__(self, library: str = "") -> None:
        self._library = library
        # What has been imported to complete a config: a model's file is run once in a process.
        self._imported: Any = None

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Let the model's auto_complete_config fill in batch size, tensors and policies.

        Raises:
            InternalError: The model cannot be imported, or its function failed.
            UnsupportedError: The model brings a Python backend of its own.
        """
        config = context.config
        self._imported = load_model_class(context, self._library)
        complete = getattr(self._imported, "auto_complete_config", None)
        if complete is None:
            return config
        try:
            completed = complete(AutoCompleteConfig(to_json(config).decode()))
        except Exception as error:
            raise InternalError(describe(error)) from error
        if not isinstance(completed, AutoCompleteConfig):
            raise InternalError(
                f"auto_complete_config function in model '{config.name}' must return a valid "
                "pb.ModelConfig object."
            )
        return _merge(config, completed)

    def load(self, context: LoadContext) -> ModelInstance:
        """Create the model's object and initialize it.

        Raises:
            InternalError: The model cannot be imported or its initialize raised.
            UnsupportedError: The model brings a Python backend of its own.
        """
        model_class, self._imported = self._imported, None
        return PythonModelInstance(context, self._library, model_class)


def _merge(config: ModelConfig, completed: AutoCompleteConfig) -> ModelConfig:
    """Take over what a backend may set; anything else a model did to the dict is ignored."""
    try:
        source = to_message(from_json(json.dumps(completed.as_dict())))
    except (InvalidArgumentError, TypeError, ValueError) as error:
        raise InternalError(
            f"auto_complete_config function in model '{config.name}' made a config that does not "
            f"parse: {error}"
        ) from error

    def change(message: Any) -> None:
        message.max_batch_size = source.max_batch_size
        for field in ("input", "output"):
            message.ClearField(field)
            getattr(message, field).extend(getattr(source, field))
        if message.WhichOneof("scheduling_choice") is None and source.HasField("dynamic_batching"):
            message.dynamic_batching.CopyFrom(source.dynamic_batching)
        if source.HasField("model_transaction_policy"):
            message.model_transaction_policy.CopyFrom(source.model_transaction_policy)

    return edit(config, change)


def _declared(config: ModelConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return datatype and shape that the model makes outputs with, by name; -1 is any length."""
    batch = (-1,) if config.max_batch_size else ()
    return {
        output.name: (
            output.datatype,
            (*batch, *(output.dims if output.reshape is None else output.reshape)),
        )
        for output in config.output
    }


def _arguments(context: LoadContext) -> dict[str, str]:
    return {
        "model_config": to_json(context.config).decode(),
        "model_instance_kind": context.kind,
        "model_instance_name": context.instance_name,
        "model_instance_device_id": str(context.device_id),
        "model_repository": context.model_dir,
        "model_version": str(context.version),
        "model_name": context.config.name,
    }


class PythonModelInstance(ModelInstance):
    """One object of a model's class.

    Args:
        context: The model.
        library: See `PythonBackend`.
        model_class: Its class; None to import it.
    """

    def __init__(self, context: LoadContext, library: str = "", model_class: Any = None) -> None:
        config = context.config
        self._model_name = config.name
        self._instance_name = context.instance_name
        self._decoupled = config.decoupled
        self._coroutines = CoroutineRunner(context.pause and calls.paused_for_calls)
        states = () if config.sequence_batching is None else config.sequence_batching.states
        self._writer = ResponseWriter(
            config.name,
            str(context.version),
            [output.name for output in config.output],
            [state.output_name for state in states],
            _declared(config),
        )
        if model_class is None:
            model_class = load_model_class(context, library)
        if not hasattr(model_class, "execute"):
            path = library or context.model_path(MODEL_FILE)
            raise InternalError(f"Python model {path} does not implement `execute` method.")
        calls.allow_calls(None)
        calls.allow_control(context.caller)
        try:
            self._model = model_class()
            if hasattr(self._model, "initialize"):
                self._model.initialize(_arguments(context))
        except Exception as error:
            raise InternalError(describe(error)) from error
        self._is_ready = getattr(self._model, "is_ready", None)
        calls.allow_calls(context.caller, context.pause)

    def execute(self, batch: ExecuteBatch) -> None:
        """Hand the batch to the model's execute and answer with what it returns.

        Raises:
            InternalError: The model raised, or returned something of a wrong type or length.
        """
        writer, decoupled = self._writer, self._decoupled
        requests = [
            ReceivedRequest(request, writer, decoupled=decoupled) for request in batch.requests
        ]
        batch.compute_input_end_ns = time.monotonic_ns()
        calls.set_parents(batch.requests)
        try:
            returned = self._model.execute(requests)
            if inspect.iscoroutine(returned):
                if decoupled:
                    self._execute_in_background(returned, requests)
                    return
                returned = self._coroutines.run(returned)
            batch.compute_output_start_ns = time.monotonic_ns()
            responses = self._checked(returned, requests)
        except Exception as error:
            failure = self._failure(error)
            _close_senders(requests, failure)
            raise failure from error
        finally:
            # Requests may not be kept beyond their answers.
            calls.set_parents(())
        if responses is None:
            _reschedule(requests)
        else:
            waiting = self._answer(requests, responses)
            # Dropped first: a sender that the model dropped too then closes itself.
            del requests
            for answer in waiting:
                answer.wait()

    @property
    def has_readiness(self) -> bool:
        """Whether the model has a function ``is_ready``."""
        return self._is_ready is not None

    def is_ready(self) -> bool:
        """Ask the model, if it has an opinion; an answer that is no bool counts as no."""
        if self._is_ready is None:
            return True
        try:
            answer = self._is_ready()
            if inspect.iscoroutine(answer):
                answer = run_elsewhere(answer, READY_TIMEOUT_S)
            if not isinstance(answer, bool):
                raise TritonModelException("is_ready() must return a boolean value")  # noqa: TRY301 - one path for all failures
        except Exception as error:
            logger.warning("model '%s' is not ready: %s", self._model_name, describe(error))
            return False
        return answer

    def custom_metrics(self) -> list[CustomFamily]:
        """Return the metrics made with pb_utils.MetricFamily."""
        return metrics.custom_metrics()

    def close(self) -> None:
        """Finalize the model; what it raises is logged."""
        calls.allow_calls(None)
        calls.allow_control(None)
        try:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        except Exception as error:
            logger.error("finalize of model '%s' failed: %s", self._model_name, describe(error))  # noqa: TRY400 - describe holds the model's frames
        finally:
            self._coroutines.close()

    def _checked(self, returned: Any, requests: list[ReceivedRequest]) -> list[Any] | None:
        """Return one response or None for each request; None for a decoupled model."""
        if self._decoupled:
            if returned is not None:
                raise _WrongReturnError(
                    f"Python model '{self._instance_name}' is using the decoupled mode and the "
                    "execute function must return None."
                )
            return None
        count = len(requests)
        if returned is None:
            return [None] * count
        if not isinstance(returned, list):
            raise _WrongReturnError(
                f"Expected a list in the execute return, found type '{type(returned)}'."
            )
        if len(returned) != count:
            raise _WrongReturnError(
                "Number of InferenceResponse objects do not match the number of InferenceRequest "
                f"objects. InferenceRequest(s) size is:{count}, and InferenceResponse(s) size "
                f"is:{len(returned)}\n"
            )
        for request, response in zip(requests, returned, strict=True):
            if response is None:
                continue
            if request.is_rescheduled:
                raise _WrongReturnError(
                    "Expected a None object in the execute function return list for reschduled "
                    f"request, found type '{type(response)}'."
                )
            if not isinstance(response, InferenceResponse):
                raise _WrongReturnError(
                    "Expected an 'InferenceResponse' object in the execute function return list, "
                    f"found type '{type(response)}'."
                )
        return returned

    def _answer(self, requests: list[ReceivedRequest], responses: list[Any]) -> list[AwaitedAnswer]:
        """Answer requests; return what those wait for that the model answers through a sender."""
        waiting = []
        for request, response in zip(requests, responses, strict=True):
            if response is not None:
                request.answer(response)
            elif request.is_rescheduled:
                request.reschedule()
            elif request.sender is None:
                request.execute_request.fail(self._unanswered())
            else:
                waiting.append(request.sender.awaited())
        return waiting

    def _execute_in_background(self, coroutine: Any, requests: list[ReceivedRequest]) -> None:
        def done(error: BaseException | None) -> None:
            if error is not None:
                failure = self._failure(error)
                logger.error("%s", failure.message)
                _close_senders(requests, failure)

        self._coroutines.start(coroutine, done)

    def _failure(self, error: BaseException) -> InternalError:
        reason = str(error) if isinstance(error, _WrongReturnError) else describe(error)
        return InternalError(
            f"Failed to process the request(s) for model '{self._instance_name}', message: {reason}"
        )

    def _unanswered(self) -> InternalError:
        return InternalError(
            f"Python model '{self._model_name}' returned None for a request whose response sender "
            "it never asked for; return an InferenceResponse, or send one"
        )


class _WrongReturnError(Exception):
    """The model's execute returned what it must not."""


def _reschedule(requests: list[ReceivedRequest]) -> None:
    for request in requests:
        if request.is_rescheduled:
            request.reschedule()


def _close_senders(requests: list[ReceivedRequest], failure: ApiError) -> None:
    for request in requests:
        if request.sender is not None:
            request.sender.abandon(failure)
