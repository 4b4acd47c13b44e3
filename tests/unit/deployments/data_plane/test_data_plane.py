# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from deployments.contracts.routing_table import Model, ModelReadyState, ModelVersion, RoutingTable
from deployments.data_plane.data_plane import DataPlane
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import CONFIG
from tests.support.memory_plane import Repository

READY, UNAVAILABLE = ModelReadyState.READY, ModelReadyState.UNAVAILABLE


def _plane(*versions: ModelVersion, strict: bool = True, initialised: bool = True) -> DataPlane:
    router = Router("node", b"secret", SlabPool(1 << 20))
    router.update(RoutingTable(1, {"m": Model("m", versions)}, initialised))
    return DataPlane("triton", router, SlabPool(1 << 20), Repository(), strict_readiness=strict)


ONE = ModelVersion(1, READY, config=CONFIG)
TWO = ModelVersion(2, READY, config=CONFIG)
FAILED = ModelVersion(3, UNAVAILABLE, "it broke")
UNLOADED = ModelVersion(3, UNAVAILABLE, "unloaded")


async def test_no_version_means_the_newest_ready_one() -> None:
    assert _plane(ONE, TWO, FAILED).resolve("m").version == 2
    assert _plane(ONE, TWO).resolve("m", "1").version == 1


@pytest.mark.parametrize(
    ("name", "version", "kind", "text"),
    [
        ("x", "", NotFoundError, "Request for unknown model: 'x' is not found"),
        ("m", "9", NotFoundError, "Request for unknown model: 'm' version 9 is not found"),
        ("m", "3", UnavailableError, "'m' version 3 is not at ready state"),
        ("m", "abc", InvalidArgumentError, "failed to get model version from specified version"),
        ("m", "-2", InvalidArgumentError, "invalid model version specified '-2'"),
        ("m", "9" * 30, InvalidArgumentError, "failed to get model version"),
    ],
)
async def test_lookup_fails_with_tritons_text(
    name: str, version: str, kind: type[TritonError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        _plane(ONE, FAILED).resolve(name, version)
    assert text in caught.value.message


async def test_model_without_a_ready_version_has_no_available_versions() -> None:
    with pytest.raises(NotFoundError, match="has no available versions"):
        _plane(FAILED).resolve("m")


async def test_a_version_whose_instances_restart_takes_requests_and_is_not_ready() -> None:
    restarting = ModelVersion(2, UNAVAILABLE, "it died", CONFIG, is_restarting=True)
    plane = _plane(restarting)
    assert plane.resolve("m").version == 2
    with pytest.raises(NotFoundError, match="has no available versions"):
        plane.model_ready("m")
    with pytest.raises(UnavailableError, match="version 2 is not at ready state"):
        plane.model_ready("m", "2")
    assert _plane(ONE, restarting).resolve("m").version == 1


@pytest.mark.parametrize("text", [" 1", "+1", "01", "1x", "1.5"])
async def test_version_is_read_as_stol_reads_it(text: str) -> None:
    assert _plane(ONE).resolve("m", text).version == 1


async def test_strict_readiness_needs_every_version_ready() -> None:
    assert _plane(ONE, TWO).server_ready()
    assert not _plane(ONE, FAILED).server_ready()
    assert _plane(ONE, UNLOADED).server_ready()
    assert _plane(ONE, FAILED, strict=False).server_ready()


async def test_server_is_live_but_not_ready_while_it_loads() -> None:
    plane = _plane(ONE, initialised=False)
    assert plane.server_live()
    assert not plane.server_ready()


async def test_draining_server_is_not_ready_but_serves() -> None:
    plane = _plane(ONE)
    plane.draining = True
    assert not plane.server_ready()
    assert plane.resolve("m").version == 1


async def test_exiting_server_refuses() -> None:
    plane = _plane(ONE)
    plane.exiting = True
    assert not plane.server_live()
    with pytest.raises(UnavailableError, match="Server exiting"):
        plane.resolve("m")


async def test_metadata_lists_ready_versions_and_adds_the_batch_dimension() -> None:
    metadata = _plane(ONE, TWO, FAILED).model_metadata("m")
    assert metadata["versions"] == ["1", "2"]
    assert metadata["inputs"] == [{"name": "A", "datatype": "INT32", "shape": [2]}]


async def test_statistics_of_an_unknown_model_are_an_invalid_argument() -> None:
    with pytest.raises(InvalidArgumentError, match="requested model 'x' is not available"):
        await _plane(ONE).statistics("x")


async def test_models_of_one_name_are_told_apart_by_the_repository() -> None:
    models = {key: Model(key, (ONE,)) for key in ("/a/m", "/b/m", "/b/n")}
    router = Router("node", b"secret", SlabPool(1 << 20))
    router.update(RoutingTable(1, models, initialised=True, has_namespaces=True))
    plane = DataPlane("triton", router, SlabPool(1 << 20), Repository())
    rows = (await plane.statistics())["model_stats"]
    assert [row["name"] for row in rows] == ["m", "m", "n"]
    assert len((await plane.statistics("n"))["model_stats"]) == 1
    assert len((await plane.statistics("/a/m"))["model_stats"]) == 1
    with pytest.raises(InvalidArgumentError, match="requested model 'm' is not available"):
        await plane.statistics("m")
    assert plane.model_metadata("n")["versions"] == ["1"]
    assert plane.model_metadata("/a/m")["name"] == "m"
    page = (await plane.metrics_text()).decode()
    assert 'nv_inference_count{model="m",namespace="/b",version="1"} 0' in page


async def test_the_page_tells_how_many_instances_a_version_that_autoscales_shall_have() -> None:
    plane = _plane(replace(ONE, desired_instances=4), TWO)
    lines = (await plane.metrics_text()).decode().splitlines()
    scaled = [line for line in lines if line.startswith("manta_autoscaling")]
    assert scaled == [
        'manta_autoscaling_desired_instances{model="m",version="1"} 4',
        'manta_autoscaling_instances{model="m",version="1"} 0',
    ]


async def test_the_page_tells_which_repositories_can_be_listed() -> None:
    router = Router("node", b"secret", SlabPool(1 << 20))
    router.update(RoutingTable(1, {}, initialised=True, reachable={"/a": True, "s3://b": False}))
    plane = DataPlane("triton", router, SlabPool(1 << 20), Repository())
    lines = (await plane.metrics_text()).decode().splitlines()
    assert "manta_nodes_without_queue_port 0" in lines
    assert lines[-2:] == [
        'manta_repository_reachable{repository="/a"} 1',
        'manta_repository_reachable{repository="s3://b"} 0',
    ]


async def test_a_dormant_version_answers_all_but_inference_without_an_instance() -> None:
    dormant = replace(ONE, is_dormant=True)
    plane = _plane(dormant)
    assert plane.server_ready()
    assert plane.model_ready("m")
    assert await plane.says_ready("m")
    assert plane.model_metadata("m")["versions"] == ["1"]
    assert plane.model_config_json("m") == _plane(ONE).model_config_json("m")
    assert (await plane.statistics("m"))["model_stats"][0]["inference_count"] == 0


async def test_a_model_that_was_never_loaded_leaves_the_server_ready() -> None:
    router = Router("node", b"secret", SlabPool(1 << 20))
    router.update(RoutingTable(1, {"m": Model("m", is_on_demand=True)}, initialised=True))
    plane = DataPlane("triton", router, SlabPool(1 << 20), Repository())
    assert plane.server_ready()
    assert plane.is_unread("m")
    assert not plane.is_unread("x")


async def test_the_page_tells_how_often_requests_started_models_and_how_many_are_dormant() -> None:
    models = {
        "m": Model("m", (replace(ONE, is_dormant=True),), True, 3, 4_500_000_000),
        "/b/n": Model("/b/n", (ONE,), True, 1, 500_000_000),
    }
    router = Router("node", b"secret", SlabPool(1 << 20))
    router.update(RoutingTable(1, models, initialised=True))
    plane = DataPlane("triton", router, SlabPool(1 << 20), Repository())
    lines = (await plane.metrics_text()).decode().splitlines()
    assert 'manta_cold_starts_total{model="m"} 3' in lines
    assert 'manta_cold_start_seconds_total{model="n",namespace="/b"} 0.500000' in lines
    assert "manta_dormant_model_versions 1" in lines
