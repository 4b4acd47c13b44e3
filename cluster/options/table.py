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
from cluster.options.flag import Flag, Group
from cluster.options.own import OwnOptions

Setting = tuple[str, str, str]
Restriction = tuple[tuple[str, ...], str, str]

_server, _logging, _repository = Group("Server"), Group("Logging"), Group("Model Repository")
_http, _grpc, _sagemaker, _vertex = (
    Group("HTTP"),
    Group("GRPC"),
    Group("Sagemaker"),
    Group("Vertex"),
)
_metrics, _tracing, _backend = Group("Metrics"), Group("Tracing"), Group("Backend")
_agent, _cache, _rate_limiter = (
    Group("Repository Agent"),
    Group("Response Cache"),
    Group("Rate Limiter"),
)
_memory, _shm = Group("Memory/Device Management"), Group("Shared-Memory")
_deprecated, _manta = Group("DEPRECATED"), Group("Manta")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(OwnOptions):
    """The options of a server; see `cluster.options.parsing.parse_options`.

    Attributes without a flag:
        scheduler_holds: Those of Triton's variables that are set which hold schedulers back, for
            tests; see `deployments.scheduling.holds`.
        sources: Where each option's value comes from: flag, environment, file, argument, default.
        warnings: What was deprecated or overridden, one line each.
    """

    id: str = _server("triton", "Name of this server in its metadata.")
    exit_timeout_secs: int = _server(30, "Seconds that requests in flight are waited for at exit.")
    log_verbose: int = _logging(0, "Verbosity; 0 is off.", values.verbosity)
    log_info: bool = _logging(True, "Log at INFO.")
    log_warning: bool = _logging(True, "Log at WARNING.")
    log_error: bool = _logging(True, "Log at ERROR.")
    log_format: str = _logging(
        "default",
        "Form of log lines: default, ISO8601, or json, also of what models print.",
        values.choice(
            "invalid argument for --log-format", "default", "ISO8601", "json", fold=False
        ),
    )
    log_file: str = _logging("", "File to log to in place of the console.")
    model_repository: tuple[str, ...] = _repository(
        (),
        "Path of a model repository, or of one model on this machine: its folder, or the file of a"
        " framework. --model-store and --model are the same.",
    )
    exit_on_error: bool = _repository(True, "Exit when a model fails to load at start.")
    disable_auto_complete_config: bool = _repository(
        False, "Require complete model configurations.", takes_value=False
    )
    strict_readiness: bool = _repository(True, "Be ready only while all models are available.")
    model_control_mode: str = _repository(
        "none",
        "Who loads models: none (all at start), poll (follow the files), explicit (the API) or"
        " ondemand (their first use).",
        values.choice("invalid argument for --model-control-mode", *values.CONTROL_MODES),
    )
    repository_poll_secs: int = _repository(15, "Seconds between polls, in mode poll.")
    load_model: tuple[str, ...] = _repository(
        (), "Model to load at start in mode explicit; '*' alone loads all."
    )
    model_config_name: str = _repository(
        "",
        "Read configs/<name>.pbtxt of a model, where it exists, in place of config.pbtxt.",
        values.config_name,
    )
    model_load_thread_count: int = _repository(4, "Models that load at the same time.")
    model_load_retry_count: int = _repository(0, "Further attempts at a load that failed.")
    model_namespacing: bool = _repository(
        False, "Allow the same model name in several repositories."
    )
    enable_peer_access: bool = _repository(
        True, "Let GPUs access each other's memory.", is_unused=True
    )
    allow_http: bool = _http(True, "Serve HTTP.")
    http_address: str = _http("0.0.0.0", "Address to bind.")  # noqa: S104 - Triton's default
    http_port: int = _http(8000, "Port; 0 lets the system choose.", values.port)
    reuse_http_port: bool = _http(
        False, "Share the port; Manta's ingresses always do.", is_unused=True
    )
    http_header_forward_pattern: str = _http(
        "", "Regular expression of headers to forward as request parameters."
    )
    http_thread_count: int = _http(8, "Threads that serve HTTP.", is_unused=True)
    http_max_input_size: int = _http(
        64 << 20, "Largest request body in bytes, also once decompressed.", least=1
    )
    http_restricted_api: tuple[Restriction, ...] = _http(
        (),
        "<api>[,<api>..]:<header>=<value>: APIs that need a header.",
        values.restricted("http-restricted-api", "api"),
        is_secret=True,
    )
    http_use_ssl: bool = _http(False, "Use TLS; not a flag of tritonserver.")
    http_use_ssl_mutual: bool = _http(
        False, "Use TLS and require certificates of clients; not a flag of tritonserver."
    )
    http_server_cert: str = _http("", "PEM file of the server's certificate chain.")
    http_server_key: str = _http("", "PEM file of the server's key.")
    http_root_cert: str = _http(
        "", "PEM file of the certificates that clients' ones are checked against."
    )
    allow_grpc: bool = _grpc(True, "Serve gRPC.")
    grpc_address: str = _grpc("0.0.0.0", "Address to bind.")  # noqa: S104 - Triton's default
    grpc_port: int = _grpc(8001, "Port; 0 lets the system choose.", values.port)
    reuse_grpc_port: bool = _grpc(
        False, "Share the port; Manta's ingresses always do.", is_unused=True
    )
    grpc_header_forward_pattern: str = _grpc(
        "", "Regular expression of metadata to forward as request parameters."
    )
    grpc_infer_thread_count: int = _grpc(
        2, "Threads that serve gRPC.", values.grpc_thread_count, is_unused=True
    )
    grpc_infer_allocation_pool_size: int = _grpc(
        8, "Request states kept for reuse.", is_unused=True
    )
    grpc_max_response_pool_size: int = _grpc(
        2**31 - 1, "Response objects kept per queue.", least=1, is_unused=True
    )
    grpc_use_ssl: bool = _grpc(False, "Use TLS.")
    grpc_use_ssl_mutual: bool = _grpc(False, "Use TLS and require certificates of clients.")
    grpc_server_cert: str = _grpc("", "PEM file of the server's certificate chain.")
    grpc_server_key: str = _grpc("", "PEM file of the server's key.")
    grpc_root_cert: str = _grpc(
        "", "PEM file of the certificates that clients' ones are checked against."
    )
    grpc_infer_response_compression_level: str = _grpc(
        "none",
        "Compression of responses: none, low, medium or high.",
        values.choice(
            "invalid argument for --grpc_infer_response_compression_level",
            "none",
            "low",
            "medium",
            "high",
        ),
    )
    grpc_keepalive_time: int = _grpc(7_200_000, "Milliseconds between keepalive pings.")
    grpc_keepalive_timeout: int = _grpc(20_000, "Milliseconds to wait for a ping's answer.")
    grpc_keepalive_permit_without_calls: bool = _grpc(False, "Ping idle connections too.")
    grpc_http2_max_pings_without_data: int = _grpc(2, "Pings sent without data; 0: any.")
    grpc_http2_min_recv_ping_interval_without_data: int = _grpc(
        300_000, "Milliseconds that clients' pings without data must be apart."
    )
    grpc_http2_max_ping_strikes: int = _grpc(2, "Bad pings before GOAWAY; 0: any.")
    grpc_max_connection_age: int = _grpc(0, "Milliseconds a connection may live; 0: any.")
    grpc_max_connection_age_grace: int = _grpc(0, "Milliseconds of grace after that.")
    grpc_restricted_protocol: tuple[Restriction, ...] = _grpc(
        (),
        "<protocol>[,<protocol>..]:<key>=<value>: needs metadata triton-grpc-protocol-<key>.",
        values.restricted("grpc-restricted-protocol", "protocol"),
        is_secret=True,
    )
    allow_sagemaker: bool = _sagemaker(False, "Serve the SageMaker endpoint.")
    sagemaker_port: int = _sagemaker(8080, "Port of the endpoint.", values.port)
    sagemaker_safe_port_range: tuple[tuple[int, int], ...] = _sagemaker(
        (), "<first>-<last>: ports the other endpoints may use.", values.pair("-")
    )
    sagemaker_thread_count: int = _sagemaker(8, "Threads of the endpoint.", is_unused=True)
    allow_vertex_ai: bool = _vertex(
        False, "Serve the Vertex AI endpoint; on by default if AIP_MODE=PREDICTION."
    )
    vertex_ai_port: int = _vertex(8080, "Port; default AIP_HTTP_PORT.", values.port)
    vertex_ai_thread_count: int = _vertex(8, "Threads of the endpoint.", is_unused=True)
    vertex_ai_default_model: str = _vertex("", "Model of requests that name none.")
    allow_metrics: bool = _metrics(True, "Serve metrics.")
    allow_gpu_metrics: bool = _metrics(True, "Include metrics of GPUs.")
    allow_cpu_metrics: bool = _metrics(True, "Include metrics of CPUs.")
    metrics_address: str = _metrics("", "Address to bind; default that of HTTP.")
    metrics_port: int = _metrics(8002, "Port; 0 lets the system choose.", values.port)
    metrics_use_ssl: bool = _metrics(False, "Use TLS; not a flag of tritonserver.")
    metrics_use_ssl_mutual: bool = _metrics(
        False, "Use TLS and require certificates of clients; not a flag of tritonserver."
    )
    metrics_server_cert: str = _metrics("", "PEM file of the server's certificate chain.")
    metrics_server_key: str = _metrics("", "PEM file of the server's key.")
    metrics_root_cert: str = _metrics(
        "", "PEM file of the certificates that clients' ones are checked against."
    )
    metrics_interval_ms: float = _metrics(2000.0, "Milliseconds between readings.")
    metrics_config: tuple[tuple[str, str], ...] = _metrics(
        (), "<setting>=<value>.", values.metrics_setting
    )
    trace_config: tuple[Setting, ...] = _tracing(
        (), "[<mode>,]<setting>=<value>.", values.trace_setting
    )
    backend_directory: str = _backend(
        "/opt/tritonserver/backends", "Folder of backends that are not Manta's own."
    )
    backend_config: tuple[Setting, ...] = _backend(
        (),
        "[<backend>,]<setting>=<value>.",
        values.setting("backend-config", "backend name", needs_name=False),
    )
    repoagent_directory: str = _agent(
        "/opt/tritonserver/repoagents",
        "Where agents in C lie, which are not loaded.",
        is_unused=True,
    )
    cache_config: tuple[Setting, ...] = _cache(
        (),
        "<cache>,<setting>=<value>, for example local,size=1048576.",
        values.setting("cache-config", "cache name", needs_name=True),
        is_secret=True,
    )
    cache_directory: str = _cache("/opt/tritonserver/caches", "Where caches lie.", is_unused=True)
    rate_limit: str = _rate_limiter(
        "off",
        "Limit executions by resources and priority: off or execution_count.",
        values.choice("invalid argument for --rate-limit", "off", "execution_count"),
    )
    rate_limit_resource: tuple[tuple[str, int, int], ...] = _rate_limiter(
        (), "<resource>:<count>[:<device>].", values.rate_limit_resource
    )
    pinned_memory_pool_byte_size: int = _memory(
        256 << 20, "Bytes of pinned memory.", values.long_integer, is_unused=True
    )
    cuda_memory_pool_byte_size: tuple[tuple[int, int], ...] = _memory(
        (), "<gpu>:<bytes> of the CUDA memory pool.", values.pair(":"), is_unused=True
    )
    cuda_virtual_address_size: tuple[tuple[int, int], ...] = _memory(
        (), "<gpu>:<bytes> a growable state may take.", values.pair(":"), is_unused=True
    )
    min_supported_compute_capability: float = _memory(
        6.0, "GPUs below this CUDA compute capability are not used."
    )
    buffer_manager_thread_count: int = _memory(0, "Threads that copy.", is_unused=True)
    host_policy: tuple[Setting, ...] = _memory(
        (),
        "<policy>,<setting>=<value>; settings are numa-node, also auto, and cpu-cores.",
        values.host_policy,
    )
    model_load_gpu_limit: tuple[tuple[int, float], ...] = _memory(
        (), "<device>:<fraction> of GPU memory above which loads fail.", values.gpu_fraction
    )
    allow_client_shm: bool = _shm(False, "Let clients register and use shared memory.")
    strict_model_config: bool = _deprecated(False, "Use --disable-auto-complete-config instead.")
    response_cache_byte_size: int = _deprecated(
        0, "Use --cache-config local,size=<bytes> instead.", values.long_integer
    )
    trace_file: str = _deprecated("", "Use --trace-config triton,file=<file> instead.")
    trace_level: tuple[str, ...] = _deprecated(
        (), "Use --trace-config level=<level> instead.", values.trace_level
    )
    trace_rate: int = _deprecated(1000, "Use --trace-config rate=<rate> instead.")
    trace_count: int = _deprecated(-1, "Use --trace-config count=<count> instead.")
    trace_log_frequency: int = _deprecated(
        0, "Use --trace-config triton,log-frequency=<frequency> instead."
    )
    config: str = _manta("", "YAML file of options; its keys are flags without dashes.")
    ray_address: str = _manta(
        "", "Ray to join: empty starts an own one, auto finds one, or <host>:<port>."
    )
    ingress_per_node: int = _manta(1, "Ingress processes on each node.", least=1)
    ingress_memory_limit_bytes: int = _manta(
        0,
        "Bytes that clients' messages may take in an ingress process; it rejects what is more. 0:"
        " a quarter of the memory that the process may use.",
        least=0,
    )
    drain_delay_secs: str = _manta(
        "auto",
        "Seconds that an ending ingress accepts requests while it is not ready, or auto: 5 on"
        " Kubernetes, else 0.",
        values.seconds_or_auto,
    )
    dashboard: bool = _manta(False, "Start Ray's dashboard.")
    grpc_server: str = _manta(
        "own",
        "gRPC transport: own or grpcio.",
        values.choice("invalid argument for --grpc-server", "own", "grpcio"),
    )
    cpus_per_instance: float = _manta(
        0.001, "CPUs that an instance on CPUs reserves in Ray.", values.fraction
    )
    model_load_timeout_secs: float = _manta(
        0.0,
        "Seconds that an instance may take to load and warm up its model; 0: no limit.",
        values.fraction,
    )
    model_cache_directory: str = _manta(
        "",
        "Folder on a disk of each node that keeps what models are loaded from; empty: one of this"
        " user's in the system's temporary directory.",
        values.folder_of_nodes,
    )
    model_cache_max_bytes: int = _manta(
        0,
        "Bytes that the folder may hold on a node; what no model uses leaves, oldest first. 0:"
        " half of what the disk would have free without it.",
        least=0,
    )
    require_signed_models: bool = _manta(
        False, "Load only models whose files are in manifests signed by one of --trusted-keys."
    )
    trusted_keys: str = _manta(
        "", "PEM file of an Ed25519 public key, or folder of such, to verify models with."
    )
    print_options: bool = _manta(
        False, "Print all options with their sources and exit.", takes_value=False
    )

    scheduler_holds: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


evolves(ServerOptions)


FLAGS: dict[str, Flag] = {
    row.name: Flag(name=row.name.replace("_", "-"), **row.metadata)
    for row in sorted(fields(ServerOptions), key=lambda row: row in fields(OwnOptions))
    if row.metadata
}
DEFAULTS: dict[str, Any] = {row.name: row.default for row in fields(ServerOptions) if row.metadata}

# Other spellings of flags.
ALIASES = {"model-store": "model-repository", "model": "model-repository"}

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
