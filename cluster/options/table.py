# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every option of the server: the fields of `ServerOptions`, each with its flag's description.

The flag of the field ``http_port`` is ``--http-port``. Flags, defaults and meanings are those of
tritonserver, except in the group Manta.

Triton: server/src/command_line_parser.cc @e1db8a6
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from backends.api.evolving import evolves
from cluster.options import values
from cluster.options.access import ACCESS
from cluster.options.admission import ADMISSION
from cluster.options.captures import CAPTURES, CaptureOptions
from cluster.options.flag import Flag
from cluster.options.flag import declared as _flag
from cluster.options.forking import FORKING
from cluster.options.lanes import LANES
from cluster.options.nodes import NODES
from cluster.options.on_demand import ON_DEMAND
from cluster.options.starting import STARTING

Setting = tuple[str, str, str]
Restriction = tuple[tuple[str, ...], str, str]


_SERVER, _LOGGING, _REPOSITORY = "Server", "Logging", "Model Repository"
_HTTP, _GRPC, _SAGEMAKER, _VERTEX = "HTTP", "GRPC", "Sagemaker", "Vertex"
_METRICS, _TRACING, _BACKEND = "Metrics", "Tracing", "Backend"
_AGENT, _CACHE, _RATE_LIMITER = "Repository Agent", "Response Cache", "Rate Limiter"
_MEMORY, _SHM = "Memory/Device Management", "Shared-Memory"
_DEPRECATED, _MANTA = "DEPRECATED", "Manta"

_LAST = frozenset({ON_DEMAND, LANES, NODES, STARTING, FORKING, ACCESS, ADMISSION, CAPTURES})
_HTTP_DEFAULT_BYTES = 64 << 20
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(CaptureOptions):
    """The options of a server; see `cluster.options.parsing.parse_options`.

    Attributes without a flag:
        scheduler_holds: Those of Triton's variables that are set which hold schedulers back, for
            tests; see `deployments.scheduling.holds`.
        sources: Where each option's value comes from: flag, environment, file, argument, default.
        warnings: What was deprecated or overridden, one line each.
    """

    id: str = _flag("triton", _SERVER, "Name of this server in its metadata.")
    exit_timeout_secs: int = _flag(
        30, _SERVER, "Seconds that requests in flight are waited for at exit."
    )

    log_verbose: int = _flag(0, _LOGGING, "Verbosity; 0 is off.", values.verbosity)
    log_info: bool = _flag(True, _LOGGING, "Log at INFO.")
    log_warning: bool = _flag(True, _LOGGING, "Log at WARNING.")
    log_error: bool = _flag(True, _LOGGING, "Log at ERROR.")
    log_format: str = _flag(
        "default",
        _LOGGING,
        "Form of log lines: default or ISO8601.",
        values.choice("invalid argument for --log-format", "default", "ISO8601", fold=False),
    )
    log_file: str = _flag("", _LOGGING, "File to log to in place of the console.")

    model_repository: tuple[str, ...] = _flag(
        (), _REPOSITORY, "Path of a model repository. --model-store is the same."
    )
    exit_on_error: bool = _flag(True, _REPOSITORY, "Exit when a model fails to load at start.")
    disable_auto_complete_config: bool = _flag(
        False, _REPOSITORY, "Require complete model configurations.", takes_value=False
    )
    strict_readiness: bool = _flag(
        True, _REPOSITORY, "Be ready only while all models are available."
    )
    model_control_mode: str = _flag(
        "none",
        _REPOSITORY,
        "Who loads models: none (all at start), poll (follow the files), explicit (the API) or"
        " ondemand (their first use).",
        values.choice("invalid argument for --model-control-mode", *values.CONTROL_MODES),
    )
    repository_poll_secs: int = _flag(15, _REPOSITORY, "Seconds between polls, in mode poll.")
    load_model: tuple[str, ...] = _flag(
        (), _REPOSITORY, "Model to load at start in mode explicit; '*' alone loads all."
    )
    model_config_name: str = _flag(
        "",
        _REPOSITORY,
        "Read configs/<name>.pbtxt of a model, where it exists, in place of config.pbtxt.",
        values.config_name,
    )
    model_load_thread_count: int = _flag(4, _REPOSITORY, "Models that load at the same time.")
    model_load_retry_count: int = _flag(0, _REPOSITORY, "Further attempts at a load that failed.")
    model_namespacing: bool = _flag(
        False, _REPOSITORY, "Allow the same model name in several repositories."
    )
    enable_peer_access: bool = _flag(
        True, _REPOSITORY, "Let GPUs access each other's memory.", is_unused=True
    )

    allow_http: bool = _flag(True, _HTTP, "Serve HTTP.")
    http_address: str = _flag("0.0.0.0", _HTTP, "Address to bind.")  # noqa: S104 - Triton's default
    http_port: int = _flag(8000, _HTTP, "Port; 0 lets the system choose.", values.port)
    reuse_http_port: bool = _flag(
        False, _HTTP, "Share the port; Manta's ingresses always do.", is_unused=True
    )
    http_header_forward_pattern: str = _flag(
        "", _HTTP, "Regular expression of headers to forward as request parameters."
    )
    http_thread_count: int = _flag(8, _HTTP, "Threads that serve HTTP.", is_unused=True)
    http_max_input_size: int = _flag(
        _HTTP_DEFAULT_BYTES,
        _HTTP,
        "Largest request body in bytes, also once decompressed.",
        values.at_least(1, "Error: --http-max-input-size must be greater than 0."),
    )
    http_restricted_api: tuple[Restriction, ...] = _flag(
        (),
        _HTTP,
        "<api>[,<api>..]:<header>=<value>: APIs that need a header.",
        values.restricted("http-restricted-api", "api"),
        is_secret=True,
    )
    http_use_ssl: bool = _flag(False, _HTTP, "Use TLS; not a flag of tritonserver.")
    http_use_ssl_mutual: bool = _flag(
        False, _HTTP, "Use TLS and require certificates of clients; not a flag of tritonserver."
    )
    http_server_cert: str = _flag("", _HTTP, "PEM file of the server's certificate chain.")
    http_server_key: str = _flag("", _HTTP, "PEM file of the server's key.")
    http_root_cert: str = _flag(
        "", _HTTP, "PEM file of the certificates that clients' ones are checked against."
    )

    allow_grpc: bool = _flag(True, _GRPC, "Serve gRPC.")
    grpc_address: str = _flag("0.0.0.0", _GRPC, "Address to bind.")  # noqa: S104 - Triton's default
    grpc_port: int = _flag(8001, _GRPC, "Port; 0 lets the system choose.", values.port)
    reuse_grpc_port: bool = _flag(
        False, _GRPC, "Share the port; Manta's ingresses always do.", is_unused=True
    )
    grpc_header_forward_pattern: str = _flag(
        "", _GRPC, "Regular expression of metadata to forward as request parameters."
    )
    grpc_infer_thread_count: int = _flag(
        2, _GRPC, "Threads that serve gRPC.", values.grpc_thread_count, is_unused=True
    )
    grpc_infer_allocation_pool_size: int = _flag(
        8, _GRPC, "Request states kept for reuse.", is_unused=True
    )
    grpc_max_response_pool_size: int = _flag(
        _INT_MAX,
        _GRPC,
        "Response objects kept per queue.",
        values.at_least(1, "Error: --grpc-max-response-pool-size must be greater than 0."),
        is_unused=True,
    )
    grpc_use_ssl: bool = _flag(False, _GRPC, "Use TLS.")
    grpc_use_ssl_mutual: bool = _flag(False, _GRPC, "Use TLS and require certificates of clients.")
    grpc_server_cert: str = _flag("", _GRPC, "PEM file of the server's certificate chain.")
    grpc_server_key: str = _flag("", _GRPC, "PEM file of the server's key.")
    grpc_root_cert: str = _flag(
        "", _GRPC, "PEM file of the certificates that clients' ones are checked against."
    )
    grpc_infer_response_compression_level: str = _flag(
        "none",
        _GRPC,
        "Compression of responses: none, low, medium or high.",
        values.choice(
            "invalid argument for --grpc_infer_response_compression_level",
            "none",
            "low",
            "medium",
            "high",
        ),
    )
    grpc_keepalive_time: int = _flag(7_200_000, _GRPC, "Milliseconds between keepalive pings.")
    grpc_keepalive_timeout: int = _flag(20_000, _GRPC, "Milliseconds to wait for a ping's answer.")
    grpc_keepalive_permit_without_calls: bool = _flag(False, _GRPC, "Ping idle connections too.")
    grpc_http2_max_pings_without_data: int = _flag(2, _GRPC, "Pings sent without data; 0: any.")
    grpc_http2_min_recv_ping_interval_without_data: int = _flag(
        300_000, _GRPC, "Milliseconds that clients' pings without data must be apart."
    )
    grpc_http2_max_ping_strikes: int = _flag(2, _GRPC, "Bad pings before GOAWAY; 0: any.")
    grpc_max_connection_age: int = _flag(0, _GRPC, "Milliseconds a connection may live; 0: any.")
    grpc_max_connection_age_grace: int = _flag(0, _GRPC, "Milliseconds of grace after that.")
    grpc_restricted_protocol: tuple[Restriction, ...] = _flag(
        (),
        _GRPC,
        "<protocol>[,<protocol>..]:<key>=<value>: needs metadata triton-grpc-protocol-<key>.",
        values.restricted("grpc-restricted-protocol", "protocol"),
        is_secret=True,
    )

    allow_sagemaker: bool = _flag(False, _SAGEMAKER, "Serve the SageMaker endpoint.")
    sagemaker_port: int = _flag(8080, _SAGEMAKER, "Port of the endpoint.", values.port)
    sagemaker_safe_port_range: tuple[tuple[int, int], ...] = _flag(
        (), _SAGEMAKER, "<first>-<last>: ports the other endpoints may use.", values.pair("-")
    )
    sagemaker_thread_count: int = _flag(8, _SAGEMAKER, "Threads of the endpoint.", is_unused=True)

    allow_vertex_ai: bool = _flag(
        False, _VERTEX, "Serve the Vertex AI endpoint; on by default if AIP_MODE=PREDICTION."
    )
    vertex_ai_port: int = _flag(8080, _VERTEX, "Port; default AIP_HTTP_PORT.", values.port)
    vertex_ai_thread_count: int = _flag(8, _VERTEX, "Threads of the endpoint.", is_unused=True)
    vertex_ai_default_model: str = _flag("", _VERTEX, "Model of requests that name none.")

    allow_metrics: bool = _flag(True, _METRICS, "Serve metrics.")
    allow_gpu_metrics: bool = _flag(True, _METRICS, "Include metrics of GPUs.")
    allow_cpu_metrics: bool = _flag(True, _METRICS, "Include metrics of CPUs.")
    metrics_address: str = _flag("", _METRICS, "Address to bind; default that of HTTP.")
    metrics_port: int = _flag(8002, _METRICS, "Port; 0 lets the system choose.", values.port)
    metrics_use_ssl: bool = _flag(False, _METRICS, "Use TLS; not a flag of tritonserver.")
    metrics_use_ssl_mutual: bool = _flag(
        False, _METRICS, "Use TLS and require certificates of clients; not a flag of tritonserver."
    )
    metrics_server_cert: str = _flag("", _METRICS, "PEM file of the server's certificate chain.")
    metrics_server_key: str = _flag("", _METRICS, "PEM file of the server's key.")
    metrics_root_cert: str = _flag(
        "", _METRICS, "PEM file of the certificates that clients' ones are checked against."
    )
    metrics_interval_ms: float = _flag(2000.0, _METRICS, "Milliseconds between readings.")
    metrics_config: tuple[tuple[str, str], ...] = _flag(
        (), _METRICS, "<setting>=<value>.", values.metrics_setting
    )

    trace_config: tuple[Setting, ...] = _flag(
        (), _TRACING, "[<mode>,]<setting>=<value>.", values.trace_setting
    )

    backend_directory: str = _flag(
        "/opt/tritonserver/backends", _BACKEND, "Folder of backends that are not Manta's own."
    )
    backend_config: tuple[Setting, ...] = _flag(
        (),
        _BACKEND,
        "[<backend>,]<setting>=<value>.",
        values.setting("backend-config", "backend name", needs_name=False),
    )
    repoagent_directory: str = _flag(
        "/opt/tritonserver/repoagents",
        _AGENT,
        "Where agents in C lie, which are not loaded.",
        is_unused=True,
    )

    cache_config: tuple[Setting, ...] = _flag(
        (),
        _CACHE,
        "<cache>,<setting>=<value>, for example local,size=1048576.",
        values.setting("cache-config", "cache name", needs_name=True),
        is_secret=True,
    )
    cache_directory: str = _flag(
        "/opt/tritonserver/caches", _CACHE, "Where caches lie.", is_unused=True
    )

    rate_limit: str = _flag(
        "off",
        _RATE_LIMITER,
        "Limit executions by resources and priority: off or execution_count.",
        values.choice("invalid argument for --rate-limit", "off", "execution_count"),
    )
    rate_limit_resource: tuple[tuple[str, int, int], ...] = _flag(
        (), _RATE_LIMITER, "<resource>:<count>[:<device>].", values.rate_limit_resource
    )

    pinned_memory_pool_byte_size: int = _flag(
        256 << 20, _MEMORY, "Bytes of pinned memory.", values.long_integer, is_unused=True
    )
    cuda_memory_pool_byte_size: tuple[tuple[int, int], ...] = _flag(
        (), _MEMORY, "<gpu>:<bytes> of the CUDA memory pool.", values.pair(":"), is_unused=True
    )
    cuda_virtual_address_size: tuple[tuple[int, int], ...] = _flag(
        (), _MEMORY, "<gpu>:<bytes> a growable state may take.", values.pair(":"), is_unused=True
    )
    min_supported_compute_capability: float = _flag(
        6.0, _MEMORY, "GPUs below this CUDA compute capability are not used."
    )
    buffer_manager_thread_count: int = _flag(0, _MEMORY, "Threads that copy.", is_unused=True)
    host_policy: tuple[Setting, ...] = _flag(
        (),
        _MEMORY,
        "<policy>,<setting>=<value>; settings are numa-node, also auto, and cpu-cores.",
        values.host_policy,
    )
    model_load_gpu_limit: tuple[tuple[int, float], ...] = _flag(
        (),
        _MEMORY,
        "<device>:<fraction> of GPU memory above which loads fail.",
        values.gpu_fraction,
    )
    allow_client_shm: bool = _flag(False, _SHM, "Let clients register and use shared memory.")

    strict_model_config: bool = _flag(
        False, _DEPRECATED, "Use --disable-auto-complete-config instead."
    )
    response_cache_byte_size: int = _flag(
        0, _DEPRECATED, "Use --cache-config local,size=<bytes> instead.", values.long_integer
    )
    trace_file: str = _flag("", _DEPRECATED, "Use --trace-config triton,file=<file> instead.")
    trace_level: tuple[str, ...] = _flag(
        (), _DEPRECATED, "Use --trace-config level=<level> instead.", values.trace_level
    )
    trace_rate: int = _flag(1000, _DEPRECATED, "Use --trace-config rate=<rate> instead.")
    trace_count: int = _flag(-1, _DEPRECATED, "Use --trace-config count=<count> instead.")
    trace_log_frequency: int = _flag(
        0, _DEPRECATED, "Use --trace-config triton,log-frequency=<frequency> instead."
    )

    config: str = _flag("", _MANTA, "YAML file of options; its keys are flags without dashes.")
    ray_address: str = _flag(
        "", _MANTA, "Ray to join: empty starts an own one, auto finds one, or <host>:<port>."
    )
    ingress_per_node: int = _flag(
        1,
        _MANTA,
        "Ingress processes on each node.",
        values.at_least(1, "Error: --ingress-per-node must be greater than 0."),
    )
    ingress_memory_limit_bytes: int = _flag(
        0,
        _MANTA,
        "Bytes that clients' messages may take in an ingress process; it refuses what is more."
        " 0: a quarter of the memory that the process may use.",
        values.at_least(0, "Error: --ingress-memory-limit-bytes must not be negative."),
    )
    drain_delay_secs: str = _flag(
        "auto",
        _MANTA,
        "Seconds that an ending ingress accepts requests while it is not ready, or auto: 5 on"
        " Kubernetes, else 0.",
        values.seconds_or_auto,
    )
    dashboard: bool = _flag(False, _MANTA, "Start Ray's dashboard.")
    grpc_server: str = _flag(
        "own",
        _MANTA,
        "gRPC transport: own or grpcio.",
        values.choice("invalid argument for --grpc-server", "own", "grpcio"),
    )
    cpus_per_instance: float = _flag(
        0.001, _MANTA, "CPUs that an instance on CPUs reserves in Ray.", values.fraction
    )
    model_load_timeout_secs: float = _flag(
        0.0,
        _MANTA,
        "Seconds that an instance may take to load and warm up its model; 0: no limit.",
        values.fraction,
    )
    model_cache_directory: str = _flag(
        "",
        _MANTA,
        "Folder on a disk of each node that keeps what models are loaded from; empty: one of"
        " this user's in the system's temporary directory.",
        values.folder_of_nodes("model-cache-directory"),
    )
    model_cache_max_bytes: int = _flag(
        0,
        _MANTA,
        "Bytes that the folder may hold on a node; what no model uses leaves, oldest first. 0: half"
        " of what the disk would have free without it.",
        values.at_least(0, "Error: --model-cache-max-bytes must not be negative."),
    )
    require_signed_models: bool = _flag(
        False,
        _MANTA,
        "Load only models whose files are in manifests signed by one of --trusted-keys.",
    )
    trusted_keys: str = _flag(
        "", _MANTA, "PEM file of an Ed25519 public key, or folder of such, to verify models with."
    )
    print_options: bool = _flag(
        False, _MANTA, "Print all options with their sources and exit.", takes_value=False
    )

    scheduler_holds: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


evolves(ServerOptions)


FLAGS: dict[str, Flag] = {
    row.name: Flag(name=row.name.replace("_", "-"), **row.metadata)
    # Where they are shown, those of the bases come last.
    for row in sorted(fields(ServerOptions), key=lambda row: row.metadata.get("group") in _LAST)
    if row.metadata
}
DEFAULTS: dict[str, Any] = {row.name: row.default for row in fields(ServerOptions) if row.metadata}

# Other spellings of flags.
ALIASES = {"model-store": "model-repository"}

# Options that are parsed and checked, and have no effect yet; a test holds that nothing reads them.
PENDING = frozenset(
    {
        "allow_sagemaker",
        "allow_vertex_ai",
        "sagemaker_port",
        "sagemaker_safe_port_range",
        "vertex_ai_default_model",
        "vertex_ai_port",
    }
)
