# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pickle
import subprocess
import sys

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.options.parsing import from_mapping
from cluster.server.app import application, build, settings_from


def test_an_application_needs_ports_that_every_replica_can_know():
    with pytest.raises(InvalidArgumentError, match="http_port: an application on Serve needs"):
        build({"model_repository": "/m", "http_port": 0})


def test_an_ingress_is_told_the_limit_of_its_memory():
    options = from_mapping({"model_repository": "/m", "ingress_memory_limit_bytes": 1 << 30})
    assert settings_from(options).memory_limit_bytes == 1 << 30


def test_an_ingress_is_told_the_folder_of_its_nodes_model_cache():
    options = from_mapping({"model_repository": "/m", "model_cache_directory": "/disk/models"})
    assert settings_from(options).model_cache_directory == "/disk/models"


def test_an_ingress_gets_only_the_listeners_that_are_on():
    options = from_mapping(
        {"model_repository": "/m", "allow_grpc": False, "http_address": "127.0.0.1"}
    )
    settings = settings_from(options)
    assert settings.http == ("127.0.0.1", 8000)
    assert settings.grpc is None
    assert settings.metrics == ("127.0.0.1", 8002)
    assert settings.openai is None
    assert settings.addresses.keys() == {"http", "metrics"}


def test_a_port_for_openai_is_at_the_address_of_http():
    given = {"model_repository": "/m", "http_address": "127.0.0.1", "openai_port": 9000}
    settings = settings_from(from_mapping(given))
    assert settings.addresses["openai"] == ("127.0.0.1", 9000)


@pytest.mark.filterwarnings("ignore:The `metrics_interval_s`:DeprecationWarning")
def test_only_nodes_with_the_labels_of_ingresses_have_replicas():
    options = from_mapping({"model_repository": "/m", "ingress_label_selector": '{"entry": "yes"}'})
    deployment = application(options, follow_nodes=True)._bound_deployment
    assert deployment.ray_actor_options["label_selector"] == {"entry": "yes"}
    policy = deployment._deployment_config.autoscaling_config.policy
    assert policy.policy_kwargs["label_selector"] == {"entry": "yes"}


@pytest.mark.filterwarnings("ignore:The `metrics_interval_s`:DeprecationWarning")
def test_no_argument_of_an_ingress_has_a_secret():
    options = from_mapping(
        {
            "model_repository": "/m",
            "http_restricted_api": "trace,logging:x-key=hush-http",
            "grpc_restricted_protocol": "trace:x-key=hush-grpc",
            "cache_config": ["redis,host=h", "redis,password=hush-redis"],
        }
    )
    deployment = application(options, follow_nodes=True)._bound_deployment
    assert b"hush" not in pickle.dumps(deployment.init_args)
    assert b"kept_secrets" in pickle.dumps(deployment.init_args)


def test_who_deploys_an_ingress_does_not_import_it():
    """It would cost `manta serve` 7 MB for as long as it runs."""
    code = "import sys, cluster.server.app; sys.exit('deployments.ingress' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
