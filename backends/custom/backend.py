# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs models with a backend library in C.

The library is loaded into the instance's own process: when it crashes, that instance is what is
lost. Manta's shim stands in for the server it was linked against.

Triton: core/src/backend_model.cc TritonModel::Create, core/src/backend_model_instance.cc @73aad7c
"""

import itertools
import json
import logging
import time
from dataclasses import dataclass, field

from backends.api.backend import (
    Backend,
    ExecuteBatch,
    ExecuteRequest,
    LoadContext,
    ModelInstance,
)
from backends.api.custom_metrics import CustomFamily
from backends.api.errors import TritonError
from backends.api.model_config import InstanceGroup, ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from backends.custom import calls
from backends.custom.model import OpenModel
from backends.custom.records import (
    COPIED_BELOW,
    EMPTY,
    ERROR,
    RESCHEDULE,
    RESPONSE,
    EventRecord,
    InstanceRecord,
    LargeTensor,
    RequestRecord,
    decode_execution,
    decode_metrics,
    encode,
)

logger = logging.getLogger(__name__)

# Numbers of TRITONSERVER_InstanceGroupKind.
_KINDS = {"AUTO": 0, "CPU": 1, "GPU": 2, "MODEL": 3}

# Requests have numbers of their own in every process, whatever instance they are of.
_numbers = itertools.count(1)


class CustomBackend(Backend):
    """Runs models whose backend is a library ``libtriton_<backend>.so``.

    As in Triton one object of a model serves both steps: the library that completes a config goes
    on with it.
    """

    def __init__(self) -> None:
        self._open: OpenModel | None = None

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Let the library complete the config.

        Raises:
            InvalidArgumentError: The library is not found, or gives a config that is none.
            NotFoundError: It cannot be loaded.
            UnavailableError: There is neither a compiled shim nor a compiler for it.
            TritonError: The library refuses the model, with its own code and text.
        """
        self._close()
        self._open = OpenModel(context, may_complete=True)
        return self._open.config

    def load(self, context: LoadContext) -> ModelInstance:
        """Load the library, unless `auto_complete` did, the model and an instance.

        Raises:
            TritonError: As `auto_complete` does.
        """
        model, self._open = self._open, None
        if model is None or not model.is_of(context):
            model = OpenModel(context, may_complete=False)
        try:
            model.complete(context)
            return CustomInstance(context, model)
        except TritonError:
            model.close()
            raise

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _instance_record(context: LoadContext) -> InstanceRecord:
    group_name = context.instance_name.rpartition("_")[0]
    groups = (each for each in context.config.instance_group if each.name == group_name)
    group = next(groups, InstanceGroup())
    policy = group.host_policy or (
        f"gpu_{context.device_id}" if context.kind == "GPU" else context.kind.lower()
    )
    return InstanceRecord(
        name=context.instance_name,
        kind=_KINDS[context.kind],
        device_id=context.device_id,
        is_passive=group.passive,
        profiles=list(group.profile),
        secondary_devices=list(group.secondary_devices),
        host_policy=json.dumps({policy: {}}),
    )


@dataclass(slots=True)
class _Given:
    """A request that the library has, and what has to stay while it has it."""

    request: ExecuteRequest
    model_name: str
    version: str
    inputs: list[Tensor] = field(default_factory=list)

    def answer(self, event: EventRecord) -> None:
        """Pass an event on."""
        if event.kind == RESPONSE:
            for large in event.large:
                event.tensors[large[0]].data = calls.view(large)
            response = InferenceResponse(
                self.model_name,
                self.version,
                self.request.request.id,
                _with_states(event),
                event.parameters,
            )
            self.request.respond(response, final=event.is_final)
        elif event.kind == ERROR:
            self.request.fail(calls.error_of(event.code, event.text), final=event.is_final)
        elif event.kind == RESCHEDULE:
            self.request.reschedule()
        elif event.kind == EMPTY:
            self.request.respond(None, final=event.is_final)


def _with_states(event: EventRecord) -> list[Tensor]:
    """Return outputs, and states behind them as the data plane wants them; each name once."""
    outputs = event.tensors[: event.output_count]
    names = {output.name for output in outputs}
    states = event.tensors[event.output_count :]
    return outputs + [state for state in states if state.name not in names]


def _deliver(event: EventRecord) -> None:
    """Pass on what a decoupled model sent, on the thread it sent it from."""
    given = calls.PROCESS.open.get(event.number)
    if given is None:
        return
    if event.is_final:
        del calls.PROCESS.open[event.number]
    given.answer(event)


class CustomInstance(ModelInstance):
    """One instance of a model in its library."""

    def __init__(self, context: LoadContext, model: OpenModel) -> None:
        config = context.config
        self._model = model
        self._name = config.name
        self._version = str(context.version)
        self._decoupled = config.decoupled
        self._outputs = [output.name for output in config.output]
        self._shim = calls.library()
        calls.PROCESS.deliver = _deliver
        record = encode(_instance_record(context))
        self._handle = calls.opened(
            self._shim.manta_open_instance, model.handle, record, len(record)
        )
        self._has_readiness = bool(self._shim.manta_has_ready(self._handle))

    def execute(self, batch: ExecuteBatch) -> None:
        """Hand the batch to the library, and answer with what it sends.

        A model that is not decoupled is waited for until it has answered and released every
        request, on whatever thread.

        Raises:
            TritonError: The shim cannot read the requests.
        """
        calls.pass_log_level()
        given: dict[int, _Given] = {}
        records = []
        for execute_request in batch.requests:
            number = next(_numbers)
            record, inputs = self._record(number, execute_request.request)
            given[number] = _Given(execute_request, self._name, self._version, inputs)
            records.append(record)
        message = encode(records)
        begin_ns = time.monotonic_ns()
        calls.PROCESS.open.update(given)
        try:
            calls.require(self._shim.manta_execute(self._handle, message, len(message)))
            execution = decode_execution(calls.said())
        finally:
            if not self._decoupled:
                for number in given:
                    del calls.PROCESS.open[number]
        end_ns = time.monotonic_ns()
        start, end = execution.compute_start_ns, execution.compute_end_ns
        is_told = begin_ns <= start <= end <= end_ns
        batch.compute_input_end_ns = start if is_told else begin_ns
        batch.compute_output_start_ns = end if is_told else end_ns
        for event in execution.events:
            given[event.number].answer(event)

    def _record(self, number: int, request: InferenceRequest) -> tuple[RequestRecord, list[Tensor]]:
        """Return a request for the shim, and the inputs that have to stay for it."""
        inputs: list[Tensor] = []
        large: list[LargeTensor] = []
        kept: list[Tensor] = []
        for index, tensor in enumerate(request.inputs):
            if len(tensor.data) < COPIED_BELOW:
                inputs.append(tensor)
                continue
            large.append((index, len(tensor.data), calls.address_of(tensor.data)))
            inputs.append(Tensor(tensor.name, tensor.datatype, tensor.shape))
            kept.append(tensor)
        record = RequestRecord(
            number=number,
            id=request.id,
            correlation_id=request.correlation_id,
            flags=request.flags,
            timeout_us=request.timeout_us,
            parameters=request.parameters,
            outputs=request.outputs or self._outputs,
            inputs=inputs,
            large=large,
        )
        return record, kept

    @property
    def has_readiness(self) -> bool:
        """Whether the library has TRITONBACKEND_ModelInstanceReady."""
        return self._has_readiness

    def is_ready(self) -> bool:
        """Ask the library; what it says against it is logged."""
        if not self._shim.manta_ready(self._handle):
            return True
        reason = calls.said().decode(errors="replace")
        logger.warning("model '%s' is not ready: %s", self._name, reason)
        return False

    def custom_metrics(self) -> list[CustomFamily]:
        """Return the metrics that the library has made."""
        self._shim.manta_metrics()
        return decode_metrics(calls.said())

    def close(self) -> None:
        """Finalize instance, model and backend; what goes wrong is logged."""
        code = self._shim.manta_close_instance(self._handle)
        if code:
            reason = calls.said().decode(errors="replace")
            logger.error("failed finalizing model instance of '%s': %s", self._name, reason)
        self._model.close()
