# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's rules for a model config, with Triton's texts.

A rule is a function from an `inference.ModelConfig` message to its complaints; the first complaint
of the first rule in order is the error. Rules of sequence batchers, ensembles and tensors live in
modules of their own.

Triton: core/src/model_config_utils.cc ValidateModelConfig, ValidateInstanceGroup @73aad7c
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.admission import admission_complaints
from backends.config.autoscaling import MOST_INSTANCES, autoscaling_complaints
from backends.config.normalisation import BACKEND_PLATFORMS
from backends.config.pbtxt import to_message
from backends.config.placement import placement_complaints
from backends.config.validation.ensemble import ensemble_complaints
from backends.config.validation.sequence import sequence_complaints
from backends.config.validation.tensors import tensor_complaints
from backends.config.views import enum_name

Rule = Callable[[Any], Iterator[str]]

ENSEMBLE = "ensemble"
MIN_COMPUTE_CAPABILITY = 6.0


def validate_before_auto_complete(config: ModelConfig) -> None:
    """Check what a backend's auto-complete cannot change any more.

    Raises:
        InvalidArgumentError: A rule is broken.
    """
    message = to_message(config)
    _raise_first(complaint for rule in _MODEL_RULES for complaint in rule(message))


def validate_tensors(config: ModelConfig) -> None:
    """Check inputs, outputs, batch inputs and batch outputs.

    Raises:
        InvalidArgumentError: A rule is broken.
    """
    _raise_first(tensor_complaints(to_message(config)))


def validate(
    config: ModelConfig,
    *,
    gpu_ids: Sequence[int],
    min_compute_capability: float = MIN_COMPUTE_CAPABILITY,
) -> None:
    """Check a complete, normalised config.

    Args:
        config: The config.
        gpu_ids: Indices of the usable GPUs.
        min_compute_capability: What makes a GPU usable, for the error.

    Raises:
        InvalidArgumentError: A rule is broken.
    """
    validate_before_auto_complete(config)
    message = to_message(config)
    _raise_first(tensor_complaints(message))
    _raise_first(_instance_group(message, gpu_ids, min_compute_capability))
    _raise_first(_batch_strategy(message))


def complaints(
    config: ModelConfig, *, gpu_ids: Sequence[int], tensors: bool = True
) -> Iterator[str]:
    """Yield all that is wrong with a normalised config, not only what `validate` would raise.

    Args:
        config: The config.
        gpu_ids: Indices of the usable GPUs.
        tensors: Whether its inputs and outputs are complete.
    """
    message = to_message(config)
    for rule in _MODEL_RULES:
        yield from rule(message)
    if tensors:
        yield from tensor_complaints(message)
    yield from _instance_group(message, gpu_ids, MIN_COMPUTE_CAPABILITY)
    yield from _batch_strategy(message)


def _raise_first(complaints: Iterable[str]) -> None:
    for complaint in complaints:
        raise InvalidArgumentError(complaint)


def _backend_and_platform(message: Any) -> Iterator[str]:
    name, backend, platform = message.name, message.backend, message.platform
    if not name:
        yield "model configuration must specify 'name'"
    if not backend and platform != ENSEMBLE:
        yield f"unexpected platform type '{platform}' for {name}"
    if backend and platform == ENSEMBLE:
        yield f"Ensemble model '{name}' must have platform type 'ensemble' and empty backend type"
    platforms = BACKEND_PLATFORMS.get(backend)
    if platforms is not None and platform not in platforms:
        yield f"unexpected 'platform' and 'backend' pair, got:{platform}, {backend}"


def _batch_size_and_version(message: Any) -> Iterator[str]:
    if message.max_batch_size < 0:
        yield f"'max_batch_size' must be non-negative value for {message.name}"
    if not message.HasField("version_policy"):
        yield f"must specify 'version policy' for {message.name}"


def _preferred_batch_size(message: Any) -> Iterator[str]:
    for size in message.dynamic_batching.preferred_batch_size:
        if size <= 0:
            yield f"dynamic batching preferred size must be positive for {message.name}"
        if size > message.max_batch_size:
            yield f"dynamic batching preferred size must be <= max batch size for {message.name}"


def _priorities(message: Any) -> Iterator[str]:
    batching, name = message.dynamic_batching, message.name
    levels = batching.priority_levels
    if levels == 0:
        return
    if not 1 <= batching.default_priority_level <= levels:
        yield f"default priority level must be in range [1, {levels}] for {name}"
    if not all(1 <= level <= levels for level in batching.priority_queue_policy):
        yield f"priority queue policy must have priority level in range [1, {levels}] for {name}"


def _preserve_ordering(message: Any) -> Iterator[str]:
    batching = message.dynamic_batching
    if not batching.preserve_ordering:
        return
    if batching.priority_levels > 1:
        yield (
            "Only one priority level is allowed when 'preserve_ordering' is true for "
            f"{message.name}"
        )
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    for policy in policies:
        delays = enum_name(policy, "timeout_action") == "DELAY"
        if delays and policy.default_timeout_microseconds:
            yield (
                "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is "
                f"true for {message.name}"
            )


def _ensemble(message: Any) -> Iterator[str]:
    if message.HasField("ensemble_scheduling"):
        if message.platform != ENSEMBLE:
            yield (
                f"ensemble scheduling cannot be set for model '{message.name}' whose platform is "
                "not ensemble"
            )
        yield from ensemble_complaints(message)
    elif message.platform == ENSEMBLE:
        yield (
            f"ensemble scheduling must be set for ensemble {message.name} whose platform is "
            "ensemble"
        )


def _response_cache(message: Any) -> Iterator[str]:
    if message.response_cache.enable and message.model_transaction_policy.decoupled:
        yield decoupled_with_cache(message.name)


def decoupled_with_cache(name: str) -> str:
    """Return what is said of a decoupled model with a response cache."""
    return (
        f"Response Cache does not currently support model {name} with 'decoupled' "
        "transaction policy. Please disable the response cache."
    )


def _metrics(message: Any) -> Iterator[str]:
    for control in message.model_metrics.metric_control:
        if not control.HasField("metric_identifier"):
            yield "metric control must specify 'metric_identifier'"
        if not control.metric_identifier.family:
            yield "metric identifier must specify non-empty 'family'"
        if not control.HasField("histogram_options"):
            yield "metric control must specify 'histogram_options'"
        if not control.histogram_options.buckets:
            yield "histogram options must specify non-empty 'buckets'"


_MODEL_RULES: tuple[Rule, ...] = (
    _backend_and_platform,
    _batch_size_and_version,
    _preferred_batch_size,
    _priorities,
    _preserve_ordering,
    sequence_complaints,
    _ensemble,
    _response_cache,
    _metrics,
    autoscaling_complaints,
    admission_complaints,
    placement_complaints,
)


def _instance_group(
    message: Any, gpu_ids: Sequence[int], min_compute_capability: float
) -> Iterator[str]:
    if message.HasField("ensemble_scheduling"):
        return
    if not message.instance_group:
        yield f"must specify one or more 'instance group's for {message.name}"
    for group in message.instance_group:
        subject = f"instance group {group.name} of model {message.name}"
        kind = enum_name(group, "kind")
        if kind == "KIND_GPU":
            yield from _gpus(group, subject, gpu_ids, min_compute_capability)
        elif kind == "KIND_AUTO":
            yield f"{subject} has unexpected kind KIND_AUTO"
        elif group.gpus:
            yield f"{subject} has kind {kind} but specifies one or more GPUs"
        yield from _profiles(group, subject, message.platform)
    count = sum(max(1, each.count) * max(1, len(each.gpus)) for each in message.instance_group)
    if count > MOST_INSTANCES:
        yield (
            f"the instance groups of model {message.name} have {count} instances in sum (count "
            f"times gpus), expected at most {MOST_INSTANCES}; give a smaller count"
        )


def _gpus(
    group: Any, subject: str, gpu_ids: Sequence[int], min_compute_capability: float
) -> Iterator[str]:
    if not group.gpus and not gpu_ids:
        yield f"{subject} has kind KIND_GPU but no GPUs are available"
    elif not group.gpus:
        yield f"{subject} has kind KIND_GPU but specifies no GPUs"
    for gpu in group.gpus:
        if gpu not in gpu_ids:
            yield (
                f"{subject} specifies invalid or unsupported gpu id {gpu}. GPUs with at least the "
                f"minimum required CUDA compute compatibility of {min_compute_capability:.6f} "
                f"are: {', '.join(map(str, sorted(gpu_ids)))}"
            )


def _profiles(group: Any, subject: str, platform: str) -> Iterator[str]:
    for profile in group.profile:
        if platform != "tensorrt_plan":
            yield (
                f"{subject} and platform {platform}specifies profile field which is only "
                "supported for TensorRT models"
            )
        if not (profile.isascii() and profile.isdigit()):
            yield (
                f"{subject} and platform {platform} specifies invalid profile {profile}. The field "
                "should contain the string representation of a non-negative integer."
            )


def _batch_strategy(message: Any) -> Iterator[str]:
    given = "TRITON_BATCH_STRATEGY_PATH" in message.parameters
    if given and message.HasField("sequence_batching"):
        yield (
            "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher, using default "
            "batching strategy"
        )
