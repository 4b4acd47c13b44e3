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

from backends.api.evolving import evolves
from backends.api.model_identifier import key_of


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
class RateLimiterResource:
    """A resource an instance holds while it executes; ``is_global`` is shared by all devices."""

    name: str
    count: int
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """One instance group: ``kind`` is KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL.

    Attributes:
        profile: Optimisation profiles of TensorRT.
        passive: Whether its instances load and never get a request.
        host_policy: Name of the policy that binds them to cores and memory; empty for the kind's.
        secondary_devices: Kind and id of each, for instance ``("KIND_NVDLA", 0)``.
    """

    name: str = ""
    kind: str = "KIND_AUTO"
    count: int = 0
    gpus: tuple[int, ...] = ()
    profile: tuple[str, ...] = ()
    passive: bool = False
    host_policy: str = ""
    resources: tuple[RateLimiterResource, ...] = ()
    priority: int = 0
    secondary_devices: tuple[tuple[str, int], ...] = ()


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
class SequenceControl:
    """One control of a sequence batcher, fed to the model as the input ``name``.

    Attributes:
        name: Input tensor name.
        kind: CONTROL_SEQUENCE_START, _READY, _END or _CORRID.
        datatype: V2 name; INT32, FP32 or BOOL for the three flags.
        false_value: What the tensor holds when the flag is off; unused by CORRID.
        true_value: What the tensor holds when the flag is on; unused by CORRID.
    """

    name: str
    kind: str
    datatype: str
    false_value: int | float | bool = 0
    true_value: int | float | bool = 0


@dataclass(frozen=True, slots=True)
class InitialState:
    """What a state holds at the start of a sequence: zeros, or the bytes of ``data_file``."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    zero_data: bool = False
    data_file: str = ""


@dataclass(frozen=True, slots=True)
class SequenceState:
    """An implicit state: output ``output_name`` becomes input ``input_name`` of the next step."""

    input_name: str
    output_name: str
    datatype: str
    dims: tuple[int, ...]
    initial_state: InitialState | None = None
    use_same_buffer: bool = False
    use_growable_memory: bool = False


@dataclass(frozen=True, slots=True)
class SequenceBatching:
    """ModelSequenceBatching; ``strategy`` is direct or oldest, and unused fields stay default."""

    strategy: str = "direct"
    max_sequence_idle_us: int = 0
    max_queue_delay_us: int = 0
    minimum_slot_utilization: float = 0.0
    max_candidate_sequences: int = 0
    preferred_batch_size: tuple[int, ...] = ()
    preserve_ordering: bool = False
    iterative: bool = False
    controls: tuple[SequenceControl, ...] = ()
    states: tuple[SequenceState, ...] = ()


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """One step: maps from the model's tensor names to the ensemble's."""

    model_name: str
    model_version: int
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]
    model_namespace: str = ""

    @property
    def model_key(self) -> str:
        """The key of the step's model; see `backends.api.model_identifier`."""
        return key_of(self.model_namespace, self.model_name)


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A tensor made from the shapes of a batch; ``kind`` is a name of BatchInput.Kind."""

    kind: str
    target_names: tuple[str, ...]
    datatype: str
    source_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """Outputs that are split by the shapes of an input; ``kind`` is a name of BatchOutput.Kind."""

    kind: str
    target_names: tuple[str, ...]
    source_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WarmupInput:
    """One input of a warmup sample; ``data_file`` lies in the model's ``warmup`` directory."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    zero_data: bool = False
    random_data: bool = False
    data_file: str = ""


@dataclass(frozen=True, slots=True)
class WarmupSample:
    """A warmup request: ``batch_size`` copies in one execution, ``count`` times."""

    name: str
    batch_size: int
    inputs: tuple[WarmupInput, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class ModelRepositoryAgent:
    """One of ModelRepositoryAgents; ``parameters`` are sorted by name."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()


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
        max_inflight_requests: Of an ensemble: requests in flight per step; 0 means no limit.
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
    runtime: str = ""
    sequence_batching: SequenceBatching | None = None
    ensemble_steps: tuple[EnsembleStep, ...] = ()
    max_inflight_requests: int = 0
    batch_input: tuple[BatchInput, ...] = ()
    batch_output: tuple[BatchOutput, ...] = ()
    warmup: tuple[WarmupSample, ...] = ()
    model_repository_agents: tuple[ModelRepositoryAgent, ...] = ()


evolves(
    ModelInput,
    ModelOutput,
    RateLimiterResource,
    InstanceGroup,
    QueuePolicy,
    DynamicBatching,
    SequenceControl,
    InitialState,
    SequenceState,
    SequenceBatching,
    EnsembleStep,
    BatchInput,
    BatchOutput,
    WarmupInput,
    WarmupSample,
    ModelRepositoryAgent,
    VersionPolicy,
    ModelConfig,
)
