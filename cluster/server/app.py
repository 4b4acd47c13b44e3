# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The Serve application: the ingress on every node.

``serve run manta.app:build model_repository=/models http_port=8000``
deploys it without a driver;
`cluster.server.Server` deploys the same application from ``manta serve``.
"""

import os
import pickle
import secrets
import socket
from collections.abc import Mapping
from typing import Any

from ray import cloudpickle, serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

from backends.api.errors import InvalidArgumentError
from cluster.actors.controller_client import connect_controller
from cluster.actors.kept_secrets import fills_settings
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions, from_mapping
from cluster.options.secret_values import without_secrets
from cluster.options.settings_at_start import (
    admission_defaults,
    cache_settings,
    drain_delay_s,
    grpc_connections,
    http_connections,
    ingress_label_selector,
    lane_settings,
    log_settings,
    models_waited_for,
)
from cluster.release import own_release
from cluster.server import ingress_entry, serve_application
from cluster.server.claim import claim_again
from cluster.server.node_counting import NodeCountingPolicy, NodeRoleReader
from cluster.server.transport_options import FILE_CHECKS, grpc_options, listeners, tls_files
from deployments.contracts.wake_limits import WakeLimits
from deployments.ingress_settings import IngressSettings
from deployments.settings.wait_for_models import WaitForModels

_MOST_REPLICAS = 10_000
_BUILD_BYTES = 8
# For closing what is left, once the stages of a drain are over.
_SHUTDOWN_SLACK_S = 5.0


def settings_from(
    options: ServerOptions, wait_for_models: WaitForModels = WaitForModels.NONE
) -> IngressSettings:
    """Pick what an ingress replica needs out of the options."""
    ports = {name: (host, port) if on else None for name, on, host, port in listeners(options)}
    return IngressSettings(
        server_id=options.id,
        strict_readiness=options.strict_readiness,
        http=ports["http"],
        grpc=ports["grpc"],
        metrics=ports["metrics"],
        openai=ports["openai"],
        grpc_server=options.grpc_server,
        http_max_input_bytes=options.http_max_input_size,
        lanes=lane_settings(options),
        exit_timeout_s=float(options.exit_timeout_secs),
        scheduler_holds=options.scheduler_holds,
        log=log_settings(options),
        http_restrictions=options.http_restricted_api,
        grpc_restrictions=options.grpc_restricted_protocol,
        http_header_forward_pattern=options.http_header_forward_pattern,
        grpc_header_forward_pattern=options.grpc_header_forward_pattern,
        allow_client_memory=options.allow_client_shm,
        grpc_options=grpc_options(options),
        http_tls=tls_files(options, "http"),
        metrics_tls=tls_files(options, "metrics"),
        grpc_tls=tls_files(options, "grpc"),
        grpc_compression=options.grpc_infer_response_compression_level,
        cache=cache_settings(options.cache_config),
        # Not a digest of the options: replicas are replaced also when only the code has changed.
        build=f"{own_release().digest}-{secrets.token_hex(_BUILD_BYTES)}",
        memory_limit_bytes=options.ingress_memory_limit_bytes,
        model_cache_directory=options.model_cache_directory,
        drain_delay_s=drain_delay_s(options, os.environ),
        wake_limits=WakeLimits(
            options.wake_max_requests, options.wake_max_bytes, options.wake_timeout_secs
        ),
        wait_for_models=wait_for_models,
        capture_config=options.capture_config,
        answer_provenance=options.answer_provenance,
        access_policy=options.access_policy,
        unix_socket_mode=int(options.unix_socket_mode, 8),
        admission=admission_defaults(options),
        http_connections=http_connections(options),
        grpc_connections=grpc_connections(options),
    )


def application(
    options: ServerOptions,
    *,
    follow_nodes: bool,
    runtime_env: Mapping[str, Any] | None = None,
    wait_for_models: WaitForModels = WaitForModels.NONE,
) -> serve.Application:
    """Build the application.

    Args:
        options: The server's options, ports already chosen.
        follow_nodes: Whether replicas shall follow nodes that come and go; without it there is one
            node's worth of them.
        runtime_env: How replicas find this release, in Ray's terms; None where they do anyway.
        wait_for_models: What Serve waits for before the application is RUNNING.
    """
    replicas = options.ingress_per_node
    selector = ingress_label_selector(options) if follow_nodes else {}
    scale: dict[str, Any] = {"num_replicas": replicas}
    if follow_nodes:
        scale = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=1,
                max_replicas=_MOST_REPLICAS,
                upscale_delay_s=0,
                downscale_delay_s=5,
                metrics_interval_s=1,
                look_back_period_s=2,
                policy=AutoscalingPolicy(
                    policy_function=NodeCountingPolicy,
                    policy_kwargs={"replicas_per_node": replicas, "label_selector": selector},
                ),
            )
        }
    settings = settings_from(without_secrets(options), wait_for_models)
    times = settings.drain_times
    actor: dict[str, Any] = {
        "num_cpus": 0,
        "resources": {f"{serve_application.PER_NODE_RESOURCE}{settings.build}": 1.0 / replicas},
    }
    if selector:
        actor["label_selector"] = dict(selector)
    if runtime_env:
        actor["runtime_env"] = dict(runtime_env)
    cloudpickle.register_pickle_by_value(ingress_entry)
    arguments = (
        settings,
        connect_controller,
        serve_application.is_being_replaced,
        serve_application.has_run,
        NodeRoleReader(selector) if selector else None,
        serve_application.is_node_draining,
        fills_settings(options),
    )
    deployment: Any = serve.deployment(
        name=serve_application.INGRESS_NAME,
        max_surge_percent=100,
        max_ongoing_requests=1000,
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=times.total_s + _SHUTDOWN_SLACK_S,
        graceful_shutdown_wait_loop_s=0.1,
        ray_actor_options=actor,
        **scale,
    )(ingress_entry.Ingress)
    bound: serve.Application = deployment.bind(own_release().root, pickle.dumps(arguments))
    return bound


def build(arguments: dict[str, Any]) -> serve.Application:
    """Builder for the Serve CLI and config files; arguments are flags with underscores.

    It returns before models are loaded; the application is RUNNING once what ``wait_for_models``
    says is there. The server ends once no application with the ingress is left on Serve; see
    `cluster.controller.ownership`.

    Raises:
        OptionError: An argument is unknown or wrong.
        TritonError: Another server runs on the cluster, or a port is 0.
    """
    options = from_mapping(arguments)
    for name in ("http_port", "grpc_port", "metrics_port"):
        # Replicas come and go without anyone who could tell the next one what was chosen.
        if not getattr(options, name):
            raise InvalidArgumentError(f"{name}: an application on Serve needs a port, got 0")
    for check in FILE_CHECKS:
        check(options)
    owner = Owner(
        token="serve",  # noqa: S106 - names the owner, opens nothing
        description=f"an application on Serve (deployed from {socket.gethostname()};"
        " 'serve shutdown' ends it)",
        is_deployed=serve_application.is_deployed,
    )
    claim_again(options, owner)
    if not serve_application.is_running():
        # The Serve CLI would start a proxy, on the very port that Triton's clients expect.
        serve_application.start_serve()
    return application(options, follow_nodes=True, wait_for_models=models_waited_for(options))
