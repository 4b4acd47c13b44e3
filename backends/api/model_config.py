# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The model configuration, frozen, with Triton's names.

The typed fields are what Manta reads. ``message`` is the whole `inference.ModelConfig` protobuf
message, serialised, so that config endpoints can render every field a user wrote. Reading and
writing the message is config_pbtxt's business.

Triton: common/protobuf/model_config.proto @83adf7c
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One input: ``datatype`` is the V2 name; ``dims`` without batch dimension."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    optional: bool = False
    allow_ragged_batch: bool = False
    is_shape_tensor: bool = False


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """One output: ``datatype`` is the V2 name; ``dims`` without batch dimension."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    label_filename: str = ""
    is_shape_tensor: bool = False


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """One instance group: ``kind`` is KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL."""

    name: str = ""
    kind: str = "KIND_AUTO"
    count: int = 0
    gpus: tuple[int, ...] = ()
    profile: tuple[str, ...] = ()
    passive: bool = False
    host_policy: str = ""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """ModelQueuePolicy: ``timeout_action`` is REJECT or DELAY; zeros mean no limit."""

    timeout_action: str = "REJECT"
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """ModelDynamicBatching."""

    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    priority_queue_policy: Mapping[int, QueuePolicy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """ModelVersionPolicy: ``kind`` is latest, all or specific."""

    kind: str = "latest"
    num_versions: int = 1
    versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model's configuration.

    Attributes:
        message: The serialised `inference.ModelConfig` these fields were read from.
    """

    name: str
    platform: str = ""
    backend: str = ""
    max_batch_size: int = 0
    input: tuple[ModelInput, ...] = ()
    output: tuple[ModelOutput, ...] = ()
    version_policy: VersionPolicy = VersionPolicy()
    instance_group: tuple[InstanceGroup, ...] = ()
    dynamic_batching: DynamicBatching | None = None
    has_sequence_batching: bool = False
    has_ensemble_scheduling: bool = False
    decoupled: bool = False
    default_model_filename: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    response_cache: bool = False
    message: bytes = b""
