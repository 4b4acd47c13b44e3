# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What options mean together: defaults that depend on others, deprecated flags, contradictions.

Triton: server/src/command_line_parser.cc TritonParser::Parse step 3, CheckPortCollision @e1db8a6
"""

import importlib.util
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from backends.api.errors import InvalidArgumentError
from cluster.options.table import DEFAULTS, PENDING, ServerOptions
from cluster.options.values import ValueRefusedError, port
from deployments.response_cache.factory import check_settings
from deployments.settings.forward_pattern import compile_forward_pattern
from deployments.settings.port_range import read_port_range
from deployments.supervision.unix_sockets import address_fault, is_unix

_HOLDS = ("TRITONSERVER_DELAY_SCHEDULER", "TRITONSERVER_BACKLOG_DELAY_SCHEDULER")
_ALL_MODELS = "*"
_PROTOCOLS = ("http", "grpc")
TLS_PORTS = (*_PROTOCOLS, "metrics")
_NO_METRICS = ("allow_gpu_metrics", "allow_cpu_metrics")
# Deprecated flags and the --trace-config setting each stands for.
_DEPRECATED_TRACE = {
    "trace_file": ("triton", "file", "file=<filepath>"),
    "trace_level": ("", "level", "level=<OFF|TIMESTAMPS|TENSORS>"),
    "trace_rate": ("", "rate", "rate=<rate value>"),
    "trace_count": ("", "count", "count=<count value>"),
    "trace_log_frequency": ("triton", "log-frequency", "log-frequency=<log frequency value>"),
}


def finish(
    chosen: dict[str, Any], sources: Mapping[str, str], environ: Mapping[str, str]
) -> ServerOptions:
    """Return the options that the values ``chosen`` make; those not in it get their defaults.

    Raises:
        ValueRefusedError: The values contradict each other.
    """
    values = {**DEFAULTS, **_vertex_ai_defaults(environ), **chosen}
    warnings = [*_fold_deprecated(values, chosen)]
    warnings += _without_effect(chosen)
    warnings += _preloads_nothing(chosen, sources)
    _derive(values)
    for complaint in _complaints(values, chosen):
        raise ValueRefusedError(complaint)
    every_source = {name: sources.get(name, "default") for name in DEFAULTS}
    return ServerOptions(
        **values,
        scheduler_holds={name: environ[name] for name in _HOLDS if name in environ},
        sources=every_source,
        warnings=tuple(warnings),
    )


def _vertex_ai_defaults(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if environ.get("AIP_MODE") == "PREDICTION":
        found |= {"allow_vertex_ai": True, "allow_http": False, "allow_grpc": False}
    if environ.get("AIP_HTTP_PORT"):
        found["vertex_ai_port"] = port(environ["AIP_HTTP_PORT"])
    if environ.get("AIP_STORAGE_URI"):
        found["model_repository"] = (environ["AIP_STORAGE_URI"],)
    return found


def _fold_deprecated(values: dict[str, Any], chosen: Mapping[str, Any]) -> Iterator[str]:
    """Move values of deprecated flags to where their replacements keep them; yield warnings."""
    if "strict_model_config" in chosen:
        yield (
            "Warning: '--strict-model-config' has been deprecated! Please use "
            "'--disable-auto-complete-config' instead."
        )
        if values["disable_auto_complete_config"] and not values["strict_model_config"]:
            yield (
                "Warning: Overriding deprecated '--strict-model-config' from False to True in "
                "favor of '--disable-auto-complete-config'!"
            )
        strict = values["strict_model_config"] or values["disable_auto_complete_config"]
        values["disable_auto_complete_config"] = strict
    if "response_cache_byte_size" in chosen:
        size = str(values["response_cache_byte_size"])
        yield (
            "Warning: '--response-cache-byte-size' has been deprecated! Please use "
            f"'--cache-config=local,size={size}' instead."
        )
        values["cache_config"] = (("local", "size", size), *values["cache_config"])
    # A later setting overrides an earlier one, so deprecated flags come first.
    settings = []
    for name, (mode, key, form) in _DEPRECATED_TRACE.items():
        if name in chosen:
            given = values[name] if isinstance(values[name], tuple) else (values[name],)
            settings += [(mode, key, str(value)) for value in given]
            prefix = f"{mode}," if mode else ""
            yield (
                f"Warning: '--{name.replace('_', '-')}' has been deprecated and will be removed "
                f"in future releases. Please use '--trace-config {prefix}{form}' instead."
            )
    values["trace_config"] = (*settings, *values["trace_config"])


def _without_effect(chosen: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(PENDING & chosen.keys()):
        if chosen[name] != DEFAULTS[name]:
            yield f"Warning: '--{name.replace('_', '-')}' is not there yet and has no effect."


def _preloads_nothing(chosen: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[str]:
    """Warn of modules that no fork server of this process imports."""
    option = "fork_server_preload"
    # In the environment it may be there for 'ray start'.
    if not chosen.get(option) or sources.get(option) == "environment":
        return
    if chosen.get("no_fork_server"):
        yield "Warning: '--fork-server-preload' has no effect with '--no-fork-server'."
    elif chosen.get("ray_address"):
        yield (
            "Warning: '--fork-server-preload' has no effect with '--ray-address'; set"
            " MANTA_FORK_SERVER_PRELOAD in the environment of 'ray start'."
        )


def _derive(values: dict[str, Any]) -> None:
    http_address = values["http_address"]
    # Whoever scrapes speaks TCP; not to the world, where HTTP is not served to it either.
    default_address = "127.0.0.1" if is_unix(http_address) else http_address
    values["metrics_address"] = values["metrics_address"] or default_address
    for protocol in TLS_PORTS:
        is_mutual = values[f"{protocol}_use_ssl_mutual"]
        values[f"{protocol}_use_ssl"] = values[f"{protocol}_use_ssl"] or is_mutual
    values["model_repository"] = tuple(dict.fromkeys(values["model_repository"]))
    values["load_model"] = tuple(dict.fromkeys(values["load_model"]))
    for name in _NO_METRICS:
        values[name] = values[name] and values["allow_metrics"]


def _complaints(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Iterator[str]:
    yield from _loading(values)
    yield from _signed_models(values)
    yield from _tracing(values)
    yield from _caches(values, chosen)
    yield from _ports(values)
    yield from _tls(values)
    yield from _forwarding(values)
    yield from _nodes(values)
    for name, kind in (("http_restricted_api", "api"), ("grpc_restricted_protocol", "protocol")):
        counts = Counter(feature for features, _, _ in values[name] for feature in features)
        for feature, count in counts.items():
            if count > 1:
                yield (
                    f"Bad option: \"--{name.replace('_', '-')}\".\nrestricted {kind} '{feature}' "
                    "can not be specified in multiple config groups"
                )


def _forwarding(values: Mapping[str, Any]) -> Iterator[str]:
    for protocol in _PROTOCOLS:
        pattern = values[f"{protocol}_header_forward_pattern"]
        try:
            compile_forward_pattern(pattern, f"--{protocol}-header-forward-pattern")
        except InvalidArgumentError as error:
            yield error.message


def _nodes(values: Mapping[str, Any]) -> Iterator[str]:
    if values["consolidate_nodes"] and not values["ingress_label_selector"]:
        yield (
            "--consolidate-nodes needs nodes without an ingress, as one with an ingress is never"
            " removed: give --ingress-label-selector as well"
        )


def _loading(values: Mapping[str, Any]) -> Iterator[str]:
    if not values["model_repository"] and not values["print_options"]:
        yield "--model-repository must be specified"
    if values["load_model"] and values["model_control_mode"] != "explicit":
        yield (
            "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."
        )
    if _ALL_MODELS in values["load_model"] and len(values["load_model"]) > 1:
        yield "Wildcard model name '*' must be the ONLY startup model if specified at all."


def _signed_models(values: Mapping[str, Any]) -> Iterator[str]:
    if not values["require_signed_models"]:
        return
    if not values["trusted_keys"]:
        yield "--require-signed-models needs the keys to trust: give --trusted-keys as well"
    if importlib.util.find_spec("cryptography") is None:
        yield (
            "--require-signed-models needs packages that are not installed. Install them on every "
            "node with: pip install 'manta-serve[security]'"
        )


def _tracing(values: Mapping[str, Any]) -> Iterator[str]:
    modes = [value for mode, key, value in values["trace_config"] if (mode, key) == ("", "mode")]
    if modes[-1:] == ["opentelemetry"] and not _has_exporter():
        yield (
            "--trace-config mode=opentelemetry needs packages that are not installed. Install them "
            "on every node with: pip install 'manta-serve[otel]'"
        )


def _has_exporter() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def _caches(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Iterator[str]:
    if "response_cache_byte_size" in chosen and "cache_config" in chosen:
        yield (
            "Error: Incompatible flags --response-cache-byte-size and --cache-config both "
            "provided. Please provide one or the other."
        )
    if len({name for name, _, _ in values["cache_config"]}) > 1:
        yield (
            "found multiple cache configurations, but only a single cache is currently supported"
        )
    elif values["cache_config"]:
        settings = {key: value for _, key, value in values["cache_config"]}
        try:
            check_settings(values["cache_config"][0][0], settings)
        except InvalidArgumentError as error:
            yield f"Error: {error.message}"


def _tls(values: Mapping[str, Any]) -> Iterator[str]:
    for protocol in TLS_PORTS:
        is_mutual = values[f"{protocol}_use_ssl_mutual"]
        needed = ["server_cert", "server_key", *(["root_cert"] if is_mutual else [])]
        lacking = [name for name in needed if not values[f"{protocol}_{name}"]]
        if values[f"{protocol}_use_ssl"] and lacking:
            flags = ", ".join(f"--{protocol}-{name.replace('_', '-')}" for name in lacking)
            on = f"--{protocol}-use-ssl" + ("-mutual" if is_mutual else "")
            yield f'Bad option: "{on}".\nTLS needs PEM files: give {flags} as well'


def _ports(values: Mapping[str, Any]) -> Iterator[str]:
    rows = (
        ("HTTP", values["allow_http"], values["http_address"], values["http_port"]),
        ("GRPC", values["allow_grpc"], values["grpc_address"], values["grpc_port"]),
        ("metrics", values["allow_metrics"], values["metrics_address"], values["metrics_port"]),
        ("OpenAI", bool(values["openai_port"]), values["http_address"], values["openai_port"]),
        ("SageMaker", values["allow_sagemaker"], "0.0.0.0", values["sagemaker_port"]),  # noqa: S104 - as Triton binds
        ("Vertex AI", values["allow_vertex_ai"], "0.0.0.0", values["vertex_ai_port"]),  # noqa: S104 - as Triton binds
    )
    if values["openai_port"] and not values["allow_http"]:
        # It has HTTP's address and TLS; off, these are not checked.
        yield "--openai-port serves what the HTTP port does; leave out --allow-http=false"
    seen: dict[tuple[str, int], str] = {}
    for name, is_on, address, number in rows:
        if is_on and is_unix(address):
            yield from _unix_faults(name, address, values["ingress_per_node"])
        elif not is_on or number == 0:
            continue
        other = seen.setdefault((address, 0 if is_unix(address) else number), name)
        if other != name:
            yield (
                f"The server cannot listen to {other} requests and {name} requests at the same "
                f"address and port {address}:{number}"
            )
    ports = {key: name for key, name in seen.items() if key[1]}
    yield from _outside_safe_range(values, ports)
    yield from _among_lanes(values, ports)


def _unix_faults(name: str, address: str, ingress_per_node: int) -> Iterator[str]:
    fault = address_fault(address)
    if fault:
        yield f"The server cannot listen to {name} requests: {fault}"
    elif ingress_per_node != 1:
        yield (
            f"The server cannot listen to {name} requests at {address} with --ingress-per-node"
            f" {ingress_per_node}: ingresses can share a port, not a Unix socket; give 1"
        )


def _outside_safe_range(
    values: Mapping[str, Any], seen: Mapping[tuple[str, int], str]
) -> Iterator[str]:
    if not values["allow_sagemaker"] or not values["sagemaker_safe_port_range"]:
        return
    first, last = values["sagemaker_safe_port_range"][-1]
    for (_, number), name in seen.items():
        if name != "SageMaker" and not first <= number <= last:
            yield (
                f"The server cannot listen to {name} requests at port {number}, allowed port range "
                f"is [{first}, {last}]"
            )


def _among_lanes(values: Mapping[str, Any], seen: Mapping[tuple[str, int], str]) -> Iterator[str]:
    lanes = read_port_range(values["lane_port_range"])
    for (_, number), name in seen.items():
        if lanes.first <= number <= lanes.last:
            yield (
                f"The server cannot listen to {name} requests at port {number}: processes may take "
                f"it for lanes, whose --lane-port-range is {lanes}; give another port or range"
            )
