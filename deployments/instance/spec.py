# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller and an instance actor tell each other. Pure data, picklable."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from backends.api.evolving import evolves
from backends.api.model_config import InstanceGroup, ModelConfig
from backends.api.model_identifier import key_of
from backends.environments.requirement_lines import Requirements
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.model_files.contracts import ModelFiles
from deployments.rate_limiter.arbiter import Limit, ResourceDemand
from deployments.settings.lane_settings import LaneSettings

# Of all named actors, in Ray.
NAMESPACE = "manta"


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """The GPU or MIG device that one instance uses.

    Attributes:
        node_id: Ray's id of its node, which alone can run the instance.
        uuid: What ``CUDA_VISIBLE_DEVICES`` names it by.
        index: Number of the GPU, as ``instance_group.gpus`` counts.
        is_counted: Whether the driver counts the GPU by the same number, and it is no MIG device.
        is_exclusive: Whether no other instance may have it.
        resource: Custom resource of the recipe that it stands for, which no node offers to Ray;
            mostly empty.
        numa_node: Of its machine, to which it is attached; None when that is not known.
    """

    node_id: str
    uuid: str
    index: int
    is_counted: bool = True
    is_exclusive: bool = False
    resource: str = ""
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """The node that one instance starts on.

    Attributes:
        node_id: Ray's id of the node.
        is_required: Whether no other can run it; else Ray takes another where there is no room.
    """

    node_id: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Gang:
    """What one instance reserves at once, in Ray's terms.

    Attributes:
        bundles: Amounts by resource; each bundle lies on one node. The process of the instance runs
            in the first.
        strategy: Of the placement group.
    """

    bundles: tuple[Mapping[str, float], ...]
    strategy: str


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """What all instances of one generation of a model version have in common.

    Attributes:
        generation: Number of the load; a reload makes a new one.
        version: Version number.
        model_dir: Local path of the model's directory.
        backend_config: ``--backend-config`` settings for the backend.
        runtime_env: Environment of the process, in Ray's terms; empty for the server's own.
        requirements: What it installs before it loads the model; None for nothing.
        secret: Key of the lanes' handshake. Never logged.
        options_digest: Digest of files and options that, when it changes, asks for a reload.
        load_timeout_s: How long the load may take, warmup included; 0.0 for ever.
        log_level: Level of the process's log.
        log_format: Form of its lines; see `LogSettings.format`.
        lanes: The server's options about lanes.
        cache: Name and settings of the response cache, for calls to other models; None without
            one. Never logged.
        resource_limits: The rate limiter's resources; None while it is off.
        scheduler_holds: Variables of the server that hold its scheduler back; see
            `deployments.scheduling.holds`.
        model_namespace: The model's namespace; empty without one.
        files: What it is loaded from, which its node fetches; None when ``model_dir`` has it. Those
            of a load ``model_dir`` has too, on the controller's node.
        model_cache_directory: Folder of the node's cache of such files; empty for the user's own.
        model_cache_max_bytes: What that may hold; 0 for half of what the disk would have free.
    """

    generation: int
    version: int
    model_dir: str
    backend_config: Mapping[str, str] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    requirements: Requirements | None = None
    secret: bytes = field(default=b"", repr=False)
    options_digest: str = ""
    load_timeout_s: float = 0.0
    log_level: str = "INFO"
    log_format: str = "default"
    lanes: LaneSettings = LaneSettings()
    cache: tuple[str, Mapping[str, str]] | None = field(default=None, repr=False)
    resource_limits: tuple[Limit, ...] | None = None
    scheduler_holds: Mapping[str, str] = field(default_factory=dict)
    model_namespace: str = ""
    files: ModelFiles | None = None
    model_cache_directory: str = ""
    model_cache_max_bytes: int = 0

    def shared(self) -> dict[str, Any]:
        """Return what the generation's instances have in common, by name."""
        return {each.name: getattr(self, each.name) for each in fields(GenerationSpec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSpec(GenerationSpec):
    """The recipe of one instance actor; the actor carries it, so a new controller can adopt it.

    Attributes:
        name: Ray actor name without namespace, unique in the cluster (``simple/1#0@3``: model,
            version, index, generation).
        model_name: Model.
        index: Position in the pool.
        instance_name: Triton's instance name, ``<group>_<k>``.
        config: The config; already complete unless ``auto_complete``.
        auto_complete: Whether the backend shall fill in the config first.
        kind: CPU, GPU or MODEL.
        device_id: GPU index.
        thread_count: Threads the instance may compute with.
        num_cpus: CPUs reserved in Ray.
        num_gpus: GPUs reserved in Ray.
        resources: Custom Ray resources that it asks for; see `ray_resources`.
        group: The instance group it belongs to.
        host_policy: Settings of the host policy that holds for it, by name.
        demand: What the instance needs of the rate limiter's resources to execute; None when
            nothing.
        device: Its GPU or MIG device; None when it needs none, or Ray chooses.
        node: Its node; None when the device says it, or Ray chooses.
        label_selector: Labels that its node has to have, in Ray's syntax.
        gang: What it reserves in a placement group; None for what its process alone takes.
        release: The release of Manta that its process runs; empty of one before releases were told.
    """

    name: str
    model_name: str
    index: int
    instance_name: str
    config: ModelConfig
    auto_complete: bool
    kind: str = "CPU"
    device_id: int = 0
    thread_count: int = 1
    num_cpus: float = 0.0
    num_gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    group: InstanceGroup = InstanceGroup()
    host_policy: Mapping[str, str] = field(default_factory=dict)
    demand: ResourceDemand | None = None
    device: DeviceAssignment | None = None
    node: NodeAssignment | None = None
    label_selector: Mapping[str, str] = field(default_factory=dict)
    gang: Gang | None = None
    release: str = ""

    @property
    def ray_resources(self) -> dict[str, float]:
        """Custom resources that Ray reserves: all but the one that the device stands for."""
        leased = "" if self.device is None else self.device.resource
        return {name: amount for name, amount in self.resources.items() if name != leased}

    @property
    def title(self) -> str:
        """What its process is called, ``simple/1#0``."""
        return f"{self.model_name}/{self.version}#{self.index}"

    @property
    def model_key(self) -> str:
        """The model's key; see `backends.api.model_identifier`."""
        return key_of(self.model_namespace, self.model_name)


@dataclass(frozen=True, slots=True)
class InstanceDescription:
    """What a loaded instance says of itself.

    Attributes:
        is_draining: Whether it is about to end and refuses new requests.
    """

    spec: InstanceSpec
    config: ModelConfig
    endpoint: InstanceEndpoint
    pid: int
    load_duration_ns: int
    is_draining: bool = False


evolves(DeviceAssignment, NodeAssignment, Gang, InstanceSpec, InstanceDescription)
