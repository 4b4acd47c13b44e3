# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fills in what a model config leaves out: the backend, the defaults, the instance groups.

The three steps of a model's way to a complete config are `infer_backend`, the backend's own
``auto_complete`` and `normalise`; normalising a normalised config changes nothing.

Triton: core/src/model_config_utils.cc AutoCompleteBackendFields, NormalizeModelConfig,
NormalizeInstanceGroup @73aad7c
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import InstanceGroup, ModelConfig, VersionPolicy
from backends.config.pbtxt import edit, to_message
from backends.config.views import enum_name

DEFAULT_SEQUENCE_IDLE_US = 1_000_000

# Where backends run that do not run wherever there is room.
_PREFERRED_GROUPS = {"openvino": (InstanceGroup(kind="KIND_CPU"),)}

# Backends that profit from a second instance on CPUs; the others run one.
_TWO_INSTANCES_ON_CPU = frozenset({"tensorflow", "onnxruntime"})

# Backends without code for GPUs: KIND_AUTO is the CPU for them, and KIND_GPU they refuse at load.
_ONLY_ON_CPU = frozenset({"fil"})


@dataclass(frozen=True, slots=True)
class _Format:
    """A file in a version directory that tells its backend; ``is_directory`` None is either."""

    filename: str
    backend: str
    platform: str = ""
    is_directory: bool | None = False


_LIBTORCH = "pytorch_libtorch"

# Ordered: the first row that fits wins.
_FORMATS = (
    _Format("model.savedmodel", "tensorflow", "tensorflow_savedmodel", is_directory=True),
    _Format("model.graphdef", "tensorflow", "tensorflow_graphdef"),
    _Format("model.plan", "tensorrt", "tensorrt_plan"),
    _Format("model.onnx", "onnxruntime", "onnxruntime_onnx", is_directory=None),
    _Format("model.xml", "openvino", is_directory=None),
    _Format("model.pt", "pytorch", _LIBTORCH),
    _Format("model.pt2", "pytorch", "torch_aoti"),
    _Format("model.py", "python", is_directory=None),
    _Format("model.gguf", "llm"),
    # An export of a language model by OpenVINO.
    _Format("model", "llm", is_directory=True),
)
_PLATFORM_ALIASES = {"libtorch": _LIBTORCH}
BACKEND_PLATFORMS: dict[str, frozenset[str]] = {
    "tensorflow": frozenset({"tensorflow_savedmodel", "tensorflow_graphdef"}),
    "tensorrt": frozenset({"tensorrt_plan"}),
    "onnxruntime": frozenset({"onnxruntime_onnx"}),
    "pytorch": frozenset({"pytorch_libtorch", "torch_aoti", "libtorch"}),
}


def infer_backend(config: ModelConfig, listing: Mapping[str, bool] | None) -> ModelConfig:
    """Fill in backend, platform and default_model_filename.

    Args:
        config: The config as written; its name is set.
        listing: Entries of the lexicographically first directory in the model's directory, each
            with whether it is a directory itself; None when there is no such directory.

    Raises:
        InvalidArgumentError: Nothing tells the backend.
    """
    found = _known_format(config, listing or {})
    if found is not None:
        if found.platform == _LIBTORCH and not _is_bare_pytorch(config):
            found = replace(found, filename="")
        return edit(config, lambda message: _fill_format(message, found))
    if config.backend or config.platform or config.default_model_filename:
        return config
    _, dot, backend = config.name.partition(".")
    if not dot:
        raise InvalidArgumentError(
            f"Invalid model name: Could not determine backend for model '{config.name}' with no "
            "backend in model configuration. Expected model name of the form "
            "'model.<backend_name>'."
        )
    custom = _Format(f"model.{backend}", backend)
    return edit(config, lambda message: _fill_format(message, custom))


def _known_format(config: ModelConfig, listing: Mapping[str, bool]) -> _Format | None:
    rows = [row for row in _FORMATS if config.backend in {"", row.backend}]
    platform = _PLATFORM_ALIASES.get(config.platform, config.platform)
    filename = config.default_model_filename
    for row in rows:
        if platform and row.platform == platform:
            return row
        # TensorFlow's file does not tell in Triton where a platform, if a wrong one, is given.
        tells = not platform or not (config.backend or row.backend == "tensorflow")
        if tells and filename and row.filename == filename:
            return row
        guess = not platform and not filename and row.filename in listing
        if guess and row.is_directory in {None, listing[row.filename]}:
            return row
    return rows[0] if config.backend and rows else None


def _is_bare_pytorch(config: ModelConfig) -> bool:
    """Whether Triton names the file of a config for TorchScript.

    A platform implies it, and a runtime in Python prefers a class to it.
    """
    return bool(config.backend) and not config.platform and config.runtime != "model.py"


def _fill_format(message: Any, row: _Format) -> None:
    message.backend = message.backend or row.backend
    message.platform = message.platform or row.platform
    message.default_model_filename = message.default_model_filename or row.filename


def normalise(
    config: ModelConfig,
    *,
    gpu_ids: Sequence[int],
    preferred_groups: Sequence[InstanceGroup] = (),
) -> ModelConfig:
    """Return ``config`` with every default written out.

    Args:
        config: A config whose backend is known.
        gpu_ids: Indices of the usable GPUs.
        preferred_groups: What the backend would choose itself: kind, count and gpus; empty for what
            is known of Triton's backends.
    """

    def change(message: Any) -> None:
        _fill_defaults(message)
        if not message.HasField("ensemble_scheduling"):
            preferred = preferred_groups or _PREFERRED_GROUPS.get(message.backend, ())
            _normalise_groups(message, gpu_ids, preferred)

    return edit(config, change)


def normalise_defaults(config: ModelConfig) -> ModelConfig:
    """Return ``config`` with all defaults but those of the instance groups, which need the GPUs."""
    return edit(config, _fill_defaults)


def _fill_defaults(message: Any) -> None:
    _normalise_version_policy(message)
    _normalise_scheduling(message)
    if not message.HasField("ensemble_scheduling"):
        _normalise_memory(message)


def _normalise_version_policy(message: Any) -> None:
    if not message.HasField("version_policy"):
        message.version_policy.latest.num_versions = 1


def _normalise_scheduling(message: Any) -> None:
    batchers = []
    if message.HasField("dynamic_batching"):
        batchers.append(message.dynamic_batching)
    if message.HasField("sequence_batching"):
        sequence = message.sequence_batching
        if sequence.max_sequence_idle_microseconds == 0:
            sequence.max_sequence_idle_microseconds = DEFAULT_SEQUENCE_IDLE_US
        if sequence.HasField("oldest"):
            batchers.append(sequence.oldest)
    for batcher in batchers:
        if not batcher.preferred_batch_size and message.max_batch_size > 0:
            batcher.preferred_batch_size.append(message.max_batch_size)


def _normalise_memory(message: Any) -> None:
    optimization = message.optimization
    for memory in ("input_pinned_memory", "output_pinned_memory"):
        if not optimization.HasField(memory):
            getattr(optimization, memory).enable = True


def _normalise_groups(
    message: Any, gpu_ids: Sequence[int], preferred_groups: Sequence[InstanceGroup]
) -> None:
    usable_ids = () if message.backend in _ONLY_ON_CPU else gpu_ids
    if not message.instance_group:
        _add_preferred_group(message, gpu_ids, preferred_groups)
    for index, group in enumerate(message.instance_group):
        group.name = group.name or f"{message.name}_{index}"
        _resolve_kind(group, usable_ids)
        _apply_preference(group, gpu_ids, preferred_groups)
        kind = enum_name(group, "kind")
        if group.count < 1:
            on_cpu = kind == "KIND_CPU" and message.backend in _TWO_INSTANCES_ON_CPU
            group.count = 2 if on_cpu else 1
        if kind == "KIND_GPU" and not group.gpus:
            group.gpus.extend(sorted(gpu_ids))


def _add_preferred_group(
    message: Any, gpu_ids: Sequence[int], preferred_groups: Sequence[InstanceGroup]
) -> None:
    group = message.instance_group.add(name=message.name)
    for preferred in preferred_groups:
        if preferred.kind == "KIND_GPU" and not gpu_ids:
            continue
        if preferred.kind == "KIND_GPU":
            group.gpus.extend(gpu for gpu in preferred.gpus if gpu in gpu_ids)
        elif preferred.kind == "KIND_AUTO":
            group.gpus.extend(preferred.gpus)
        group.kind = group.Kind.Value(preferred.kind)
        group.count = preferred.count
        return


def _resolve_kind(group: Any, gpu_ids: Sequence[int]) -> None:
    if enum_name(group, "kind") == "KIND_AUTO":
        fits = bool(gpu_ids) and all(gpu in gpu_ids for gpu in group.gpus)
        group.kind = group.Kind.Value("KIND_GPU" if fits else "KIND_CPU")


def _apply_preference(
    group: Any, gpu_ids: Sequence[int], preferred_groups: Sequence[InstanceGroup]
) -> None:
    for preferred in preferred_groups:
        if preferred.kind != enum_name(group, "kind"):
            continue
        if preferred.kind == "KIND_GPU" and preferred.gpus and not group.gpus:
            group.gpus.extend(gpu for gpu in preferred.gpus if gpu in gpu_ids)
            if not group.gpus:
                continue
        if group.count < 1 and preferred.count > 0:
            group.count = preferred.count


def without_groups(config: ModelConfig) -> ModelConfig:
    """Return ``config`` without what applies in place: instance groups and version policy."""
    message = to_message(config)
    message.ClearField("instance_group")
    message.ClearField("version_policy")
    return replace(
        config,
        instance_group=(),
        version_policy=VersionPolicy(),
        message=message.SerializeToString(deterministic=True),
    )


def with_groups_of(config: ModelConfig, newer: ModelConfig) -> ModelConfig:
    """Return ``config`` with the instance groups and the version policy of ``newer``."""
    groups, policy = newer.instance_group, newer.version_policy
    if (groups, policy) == (config.instance_group, config.version_policy):
        return config
    message, source = to_message(config), to_message(newer)
    del message.instance_group[:]
    message.instance_group.extend(source.instance_group)
    message.version_policy.CopyFrom(source.version_policy)
    return replace(
        config,
        instance_group=groups,
        version_policy=policy,
        message=message.SerializeToString(deterministic=True),
    )


def change_requires_reload(old: ModelConfig, new: ModelConfig) -> bool:
    """Whether more changed than instance groups and version policy, which apply in place.

    Triton: core/src/model_config_utils.cc ConfigChangeRequiresReload @73aad7c
    """
    return without_groups(old) != without_groups(new)
