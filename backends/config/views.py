# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads an `inference.ModelConfig` protobuf message into the frozen dataclasses of model_config.

Nothing is defaulted or checked here: normalisation and validation work on the message itself.
"""

from typing import Any

from backends.api.datatypes import BY_CONFIG_NAME
from backends.api.model_config import (
    BatchInput,
    BatchOutput,
    DynamicBatching,
    EnsembleStep,
    InitialState,
    InstanceGroup,
    ModelConfig,
    ModelInput,
    ModelOutput,
    ModelRepositoryAgent,
    QueuePolicy,
    RateLimiterResource,
    SequenceBatching,
    SequenceControl,
    SequenceState,
    VersionPolicy,
    WarmupInput,
    WarmupSample,
)

# Which repeated field of a control holds its false and true value, and the datatype that implies.
_FLAG_VALUES = (
    ("int32_false_true", "INT32"),
    ("fp32_false_true", "FP32"),
    ("bool_false_true", "BOOL"),
)


def enum_name(message: Any, field: str) -> str:
    """Return the name of the value that an enum field of ``message`` holds, or its number."""
    number = getattr(message, field)
    value = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return str(number) if value is None else str(value.name)


def datatype_name(message: Any) -> str:
    """Return the V2 name of ``message.data_type``; empty when it is not set."""
    row = BY_CONFIG_NAME.get(enum_name(message, "data_type"))
    return "" if row is None else row.name


def view(message: Any) -> ModelConfig:
    """Return the dataclass view of a ModelConfig message."""
    scheduling = message.WhichOneof("scheduling_choice")
    return ModelConfig(
        name=message.name,
        platform=message.platform,
        backend=message.backend,
        max_batch_size=message.max_batch_size,
        input=tuple(map(_input, message.input)),
        output=tuple(map(_output, message.output)),
        version_policy=_version_policy(message.version_policy),
        instance_group=tuple(map(_instance_group, message.instance_group)),
        dynamic_batching=(
            _dynamic_batching(message.dynamic_batching)
            if scheduling == "dynamic_batching"
            else None
        ),
        has_sequence_batching=scheduling == "sequence_batching",
        has_ensemble_scheduling=scheduling == "ensemble_scheduling",
        decoupled=message.model_transaction_policy.decoupled,
        default_model_filename=message.default_model_filename,
        parameters={key: entry.string_value for key, entry in message.parameters.items()},
        metric_tags=dict(message.metric_tags),
        response_cache=message.response_cache.enable,
        message=message.SerializeToString(deterministic=True),
        runtime=message.runtime,
        sequence_batching=(
            _sequence_batching(message.sequence_batching)
            if scheduling == "sequence_batching"
            else None
        ),
        ensemble_steps=tuple(map(_ensemble_step, message.ensemble_scheduling.step)),
        max_inflight_requests=message.ensemble_scheduling.max_inflight_requests,
        batch_input=tuple(map(_batch_input, message.batch_input)),
        batch_output=tuple(map(_batch_output, message.batch_output)),
        warmup=tuple(map(_warmup, message.model_warmup)),
        model_repository_agents=tuple(map(_agent, message.model_repository_agents.agents)),
    )


def _input(message: Any) -> ModelInput:
    return ModelInput(
        name=message.name,
        datatype=datatype_name(message),
        dims=tuple(message.dims),
        reshape=tuple(message.reshape.shape) if message.HasField("reshape") else None,
        optional=message.optional,
        allow_ragged_batch=message.allow_ragged_batch,
        is_shape_tensor=message.is_shape_tensor,
    )


def _output(message: Any) -> ModelOutput:
    return ModelOutput(
        name=message.name,
        datatype=datatype_name(message),
        dims=tuple(message.dims),
        reshape=tuple(message.reshape.shape) if message.HasField("reshape") else None,
        label_filename=message.label_filename,
        is_shape_tensor=message.is_shape_tensor,
    )


def _agent(message: Any) -> ModelRepositoryAgent:
    return ModelRepositoryAgent(message.name, tuple(sorted(message.parameters.items())))


def _version_policy(message: Any) -> VersionPolicy:
    choice = message.WhichOneof("policy_choice")
    if choice is None:
        return VersionPolicy()
    return VersionPolicy(
        kind=choice,
        num_versions=message.latest.num_versions if choice == "latest" else 0,
        versions=tuple(message.specific.versions),
    )


def _instance_group(message: Any) -> InstanceGroup:
    return InstanceGroup(
        name=message.name,
        kind=enum_name(message, "kind"),
        count=message.count,
        gpus=tuple(message.gpus),
        profile=tuple(message.profile),
        passive=message.passive,
        host_policy=message.host_policy,
        resources=tuple(
            RateLimiterResource(name=row.name, count=row.count, is_global=getattr(row, "global"))
            for row in message.rate_limiter.resources
        ),
        priority=message.rate_limiter.priority,
        secondary_devices=tuple(
            (enum_name(device, "kind"), device.device_id) for device in message.secondary_devices
        ),
    )


def _queue_policy(message: Any) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=enum_name(message, "timeout_action"),
        default_timeout_us=message.default_timeout_microseconds,
        allow_timeout_override=message.allow_timeout_override,
        max_queue_size=message.max_queue_size,
    )


def _dynamic_batching(message: Any) -> DynamicBatching:
    policies = message.priority_queue_policy
    return DynamicBatching(
        preferred_batch_size=tuple(message.preferred_batch_size),
        max_queue_delay_us=message.max_queue_delay_microseconds,
        preserve_ordering=message.preserve_ordering,
        priority_levels=message.priority_levels,
        default_priority_level=message.default_priority_level,
        default_queue_policy=_queue_policy(message.default_queue_policy),
        priority_queue_policy={level: _queue_policy(policies[level]) for level in sorted(policies)},
    )


def _sequence_batching(message: Any) -> SequenceBatching:
    strategy = message.WhichOneof("strategy_choice") or "direct"
    chosen = getattr(message, strategy)
    return SequenceBatching(
        strategy=strategy,
        max_sequence_idle_us=message.max_sequence_idle_microseconds,
        max_queue_delay_us=chosen.max_queue_delay_microseconds,
        minimum_slot_utilization=message.direct.minimum_slot_utilization,
        max_candidate_sequences=message.oldest.max_candidate_sequences,
        preferred_batch_size=tuple(message.oldest.preferred_batch_size),
        preserve_ordering=message.oldest.preserve_ordering,
        iterative=message.iterative_sequence,
        controls=tuple(
            _control(tensor.name, control)
            for tensor in message.control_input
            for control in tensor.control
        ),
        states=tuple(map(_state, message.state)),
    )


def _control(name: str, message: Any) -> SequenceControl:
    kind = enum_name(message, "kind")
    for field, datatype in _FLAG_VALUES:
        values = getattr(message, field)
        if len(values) == len(("false", "true")):
            return SequenceControl(name, kind, datatype, values[0], values[1])
    return SequenceControl(name, kind, datatype_name(message))


def _state(message: Any) -> SequenceState:
    initial = message.initial_state[0] if message.initial_state else None
    return SequenceState(
        input_name=message.input_name,
        output_name=message.output_name,
        datatype=datatype_name(message),
        dims=tuple(message.dims),
        initial_state=None if initial is None else _initial_state(initial),
        use_same_buffer=message.use_same_buffer_for_input_output,
        use_growable_memory=message.use_growable_memory,
    )


def _initial_state(message: Any) -> InitialState:
    return InitialState(
        name=message.name,
        datatype=datatype_name(message),
        dims=tuple(message.dims),
        zero_data=message.zero_data,
        data_file=message.data_file,
    )


def _ensemble_step(message: Any) -> EnsembleStep:
    return EnsembleStep(
        model_name=message.model_name,
        model_version=message.model_version,
        input_map=dict(message.input_map),
        output_map=dict(message.output_map),
        model_namespace=message.model_namespace,
    )


def _batch_input(message: Any) -> BatchInput:
    return BatchInput(
        kind=enum_name(message, "kind"),
        target_names=tuple(message.target_name),
        datatype=datatype_name(message),
        source_inputs=tuple(message.source_input),
    )


def _batch_output(message: Any) -> BatchOutput:
    return BatchOutput(
        kind=enum_name(message, "kind"),
        target_names=tuple(message.target_name),
        source_inputs=tuple(message.source_input),
    )


def _warmup(message: Any) -> WarmupSample:
    return WarmupSample(
        name=message.name,
        batch_size=message.batch_size,
        inputs=tuple(
            WarmupInput(
                name=name,
                datatype=datatype_name(entry),
                dims=tuple(entry.dims),
                zero_data=entry.zero_data,
                random_data=entry.random_data,
                data_file=entry.input_data_file,
            )
            for name, entry in sorted(message.inputs.items())
        ),
        count=max(message.count, 1),
    )
