# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Options that tritonserver does not have, those of the group Manta excepted."""

from dataclasses import dataclass
from typing import Final

from backends.config.placement import read_label_selector
from cluster.options import values
from cluster.options.flag import Group
from deployments.settings.lane_settings import TLS_MODES
from deployments.settings.port_range import read_port_range
from deployments.settings.wait_for_models import WaitForModels

AUTO: Final = "auto"
_LARGEST_MODE: Final = 0o777

_on_demand, _lanes, _nodes = Group("On demand"), Group("Lanes"), Group("Nodes")
_starting, _forking, _access = Group("Starting"), Group("Fork Server"), Group("Access")
_admission, _captures, _openai = Group("Admission"), Group("Captures"), Group("OpenAI")


def _port_range(text: str) -> str:
    try:
        read_port_range(text)
    except ValueError as error:
        raise values.ValueRefusedError(f"invalid argument for --lane-port-range: {error}") from None
    return text


def _label_selector(text: str) -> str:
    try:
        if text:
            read_label_selector(text)
    except ValueError:
        raise values.ValueRefusedError(
            f"invalid argument for --ingress-label-selector: expected a JSON object of Ray's label"
            f' conditions, for example {{"ingress": "true"}}, got \'{text}\''
        ) from None
    return text


def _mode(text: str) -> str:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= _LARGEST_MODE:
        raise values.ValueRefusedError(
            f"invalid argument for --unix-socket-mode: got '{text}', expected permissions in octal"
            " digits, such as 0660"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOptions:
    """A part of `cluster.options.table.ServerOptions`; the help has them last."""

    wake_max_requests: int = _on_demand(
        1000,
        "Maximum number of requests that wait for cold starts in an ingress.",
        least=1,
    )
    wake_max_bytes: int = _on_demand(
        64 << 20,
        "Maximum bytes of tensors of all requests that wait for cold starts in an ingress.",
        least=1,
    )
    wake_timeout_secs: float = _on_demand(
        120.0, "Maximum time a request waits for a cold start, in seconds.", values.fraction
    )
    prestart_workers: int = _on_demand(
        1,
        "Idle Ray workers that each node keeps for the next instances while models are dormant.",
        least=0,
    )
    prefetch_cache_fraction: float = _on_demand(
        0.0,
        "Part of a node's model cache up to which files of dormant models are fetched there"
        " before their first use. 0: they are not.",
        values.part,
    )
    ondemand_max_models: int = _on_demand(
        0,
        "Maximum number of model versions with instances in mode ondemand; the least recently used"
        " scale to zero. 0: no limit.",
        least=0,
    )
    ondemand_memory_fraction: float = _on_demand(
        0.9,
        "Part of a node's memory that instances may use in mode ondemand before the least recently"
        " used scale to zero.",
        values.fraction,
    )
    openai_port: int = _openai(
        0,
        "One more port, at the address and with the TLS of HTTP, that serves what the HTTP port"
        " does, for clients of Triton's OpenAI front end, which is at 9000. 0: none.",
        values.port,
    )
    lane_slab_threshold_bytes: int = _lanes(
        65536, "Tensors from this size on travel through shared memory within a node.", least=1
    )
    lane_port_range: str = _lanes(
        "",
        "<first>-<last>: ports at which processes of a node listen for other nodes; empty: any.",
        _port_range,
    )
    lane_tls: str = _lanes(
        "ray",
        "TLS between nodes: off; ray, when Ray's is on, with its certificates; derived, also when"
        " it is not, with a certificate made from the cluster's secret.",
        values.choice("invalid argument for --lane-tls", *TLS_MODES),
    )
    instance_heartbeat_timeout_secs: float = _lanes(
        10.0, "Seconds without progress until an instance is replaced; 0: off.", values.fraction
    )
    ingress_label_selector: str = _nodes(
        "",
        "Labels that a node must have for an ingress, as a JSON object in Ray's syntax; empty:"
        " all nodes have one.",
        _label_selector,
    )
    consolidate_nodes: bool = _nodes(
        False,
        "Empty under-used nodes without an ingress, so that Ray's autoscaler can remove them.",
    )
    consolidate_after_secs: float = _nodes(
        300.0, "Seconds that a node must be under-used before it is emptied.", values.fraction
    )
    verbose: bool = _starting(
        False,
        "Print what Ray and Serve say, too, and log as --log-verbose=1 does.",
        takes_value=False,
    )
    wait_for_models: str = _starting(
        AUTO,
        "What an application on Serve waits for before it is RUNNING: all, until every start-up"
        " model is ready; attempted, until each was tried; none. auto: all, or attempted with"
        " --exit-on-error=false. 'manta serve' waits itself.",
        values.choice("invalid argument for --wait-for-models", AUTO, *WaitForModels),
    )
    no_fork_server: bool = _forking(
        False,
        "Start every process of a Ray of Manta's own by itself, not forked from one that has"
        " imported what it needs.",
        takes_value=False,
    )
    fork_server_preload: str = _forking(
        "",
        "Modules that models import, separated by commas: processes are forked from one that has"
        " imported them too. One that cannot be imported, starts threads or opens a GPU is left"
        " out, which is said.",
        values.module_names,
    )
    access_policy: str = _access(
        "",
        "YAML file of the access policy: who may call which API. Read on each node with an ingress,"
        " and again when it changes; empty: no authentication.",
    )
    unix_socket_mode: str = _access(
        "0660",
        "Octal permissions of the files of Unix sockets, which --http-address=unix:/<path> and"
        " the like make.",
        _mode,
    )
    admission: str = _admission(
        "off",
        "Reject requests that would wait too long in the queue: off or adaptive. Parameter"
        " admission.mode of a model sets it for that model.",
        values.choice("invalid argument for --admission", "off", "adaptive"),
    )
    admission_target_queue_ms: float = _admission(
        0.0,
        "Mean milliseconds in the queue that are kept under overload. 0: as long as a request"
        " takes that does not wait.",
        values.fraction,
    )
    admission_burst_ms: float = _admission(
        100.0,
        "Milliseconds that requests may queue before any is rejected; 20 executions if that is"
        " more.",
        values.fraction,
    )
    admission_max_requests: int = _admission(
        0, "Requests under way in an ingress process, of all models. 0: any number.", least=0
    )
    http_max_connections: int = _admission(
        10_000,
        "Open HTTP connections of an ingress process. For one more an idle one is closed.",
        least=1,
    )
    http_max_connections_per_peer: int = _admission(
        0,
        "Open HTTP connections of one peer's address to an ingress process. 0: any number.",
        least=0,
    )
    http_idle_timeout_secs: int = _admission(
        0, "Seconds without a request after which an HTTP connection is closed. 0: never.", least=0
    )
    http_read_timeout_secs: int = _admission(
        60,
        "Seconds without a byte of an unfinished HTTP request; its headers have half of them.",
        least=2,
    )
    http_write_timeout_secs: int = _admission(
        60, "Seconds that an HTTP peer may leave its answers unread.", least=1
    )
    grpc_max_connections: int = _admission(
        10_000,
        "Open gRPC connections of an ingress process. For one more an idle one is closed.",
        least=1,
    )
    grpc_max_connections_per_peer: int = _admission(
        0,
        "Open gRPC connections of one peer's address to an ingress process. 0: any number.",
        least=0,
    )
    grpc_max_concurrent_streams: int = _admission(
        1000, "Calls under way on one gRPC connection.", least=1
    )
    grpc_write_timeout_secs: int = _admission(
        300, "Seconds that a gRPC peer may leave its answers unread.", least=1
    )
    capture_config: str = _captures(
        "", "YAML file that says which requests are captured, and where to; empty: none."
    )
    answer_provenance: bool = _captures(
        False,
        "Have every answer name the model's version, digest and rollout arm, and not only those"
        " to requests with the parameter manta_provenance.",
    )
