# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Quotas, shares, models and versions of tenants, by a policy file, with a real server."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from deployments.access.keys import hash_made, make_key
from tests.support.model_folders import write_folder
from tests.support.policed_server import PolicedServer
from tests.support.rollout_models import RolloutClient, write_rollout_models
from tests.support.unix_sockets import connection_to

CONFIG = """
backend: "python"
max_batch_size: 0
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
"""
CODE = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep({seconds})
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", each.inputs()[0].as_numpy())])
            for each in requests
        ]
"""
BODY = json.dumps(
    {"inputs": [{"name": "X", "datatype": "INT32", "shape": [1], "data": [1]}]}
).encode()
TENANTS = {
    "light": {"weight": 1},
    "heavy": {"weight": 3},
    "capped": {"requests_per_s": 0.01, "burst": 2},
    "costly": {"gpu_seconds_per_s": 0.001},
    "shared": {"concurrent_requests": 8, "scope": "cluster"},
    "default": {"concurrent_requests": 1},
    "red": {},
    "blue": {},
}
# What only they may see and ask; all others may do everything.
MODELS = {"red": ["voter", "pair"], "blue": ["voter", "slow"]}
ROLES = ["infer", "metrics", "metadata", "control", "health"]


class Tenants:
    """A server whose callers have a tenant each."""

    def __init__(self, policed: PolicedServer, models: Path) -> None:
        self.server, self.models = policed, models
        names = [*TENANTS, "stranger"]
        self.keys = {name: make_key(name.encode().ljust(32, b"-")) for name in names}
        stored = [
            {"subject": name, "hash": hash_made(key)}
            # A stranger is of no tenant in particular.
            | ({"tenant": name} if name in TENANTS else {})
            for name, key in self.keys.items()
        ]
        self.policy = {
            "authentication": {"api_keys": {"keys": stored}},
            "grants": [
                {
                    "to": {"subjects": [name for name in names if name not in MODELS]},
                    "roles": ROLES,
                },
                *(
                    {
                        "to": {"tenants": [name]},
                        "roles": ["infer", "metadata", "health"],
                        "models": models,
                    }
                    for name, models in MODELS.items()
                ),
            ],
            # As it is by default, everybody may ask whether a model is ready.
            "public": [],
            "tenants": TENANTS,
        }
        write_folder(models, "slow", CONFIG, CODE.format(seconds=0.01))
        write_folder(models, "slower", CONFIG, CODE.format(seconds=0.05))
        write_rollout_models(models, versions=(1, 2), names=("voter", "pair"))

    def ask(self, tenant: str, model: str) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text of the answer to one request over HTTP."""
        connection = self.server.connection()
        connection.request("POST", f"/v2/models/{model}/infer", BODY, self.headers(tenant))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def headers(self, tenant: str) -> dict[str, str]:
        """Return what a tenant's requests have."""
        return {"x-api-key": self.keys[tenant]}

    def metrics(self) -> str:
        connection = connection_to(self.server.running.metrics)
        connection.request("GET", "/metrics", headers=self.headers("light"))
        text = connection.getresponse().read().decode()
        connection.close()
        return text


@pytest.fixture(scope="module")
def tenants(policed: PolicedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    here = Tenants(policed, tmp_path_factory.mktemp("tenants"))
    with policed.governed(here.policy, here.models, shown=here.keys.values()):
        yield here


class Load:
    """Connections of tenants that ask for one model, again and again, in turns.

    Attributes:
        order: The tenants of the answers, as they came.
    """

    def __init__(self, here: Tenants) -> None:
        self.order: list[str] = []
        self._here = here
        self._is_over = False

    async def run(self, connections: dict[str, int], count: int) -> None:
        """Go on until there were so many answers."""
        askers = [
            asyncio.create_task(self._ask(tenant, count))
            for tenant, number in connections.items()
            for _ in range(number)
        ]
        await asyncio.gather(*askers)

    async def _ask(self, tenant: str, count: int) -> None:
        path = self._here.server.running.http.removeprefix("unix:")
        reader, writer = await asyncio.open_unix_connection(path)
        head = (
            f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\n"
            f"x-api-key: {self._here.keys[tenant]}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode()
        while len(self.order) < count:
            writer.write(head + BODY)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            lines = answer.decode().lower().split("\r\n")
            (length,) = (line[15:] for line in lines if line.startswith("content-length:"))
            await reader.readexactly(int(length))
            self.order.append(tenant)
        writer.close()


def test_two_tenants_of_weight_1_and_3_share_an_overloaded_instance(tenants: Tenants) -> None:
    load = Load(tenants)
    asyncio.run(load.run({"light": 80, "heavy": 8}, 700))
    # In the beginning they come one after the other, in the end they go so.
    counts = Counter(load.order[100:600])
    assert counts["heavy"] / counts["light"] == pytest.approx(3, rel=0.05)


def test_over_its_rate_a_tenant_is_told_when_to_come_again(tenants: Tenants) -> None:
    assert [tenants.ask("capped", "slow")[0] for _ in range(2)] == [200, 200]
    status, headers, text = tenants.ask("capped", "slow")
    assert status == 429
    assert int(headers["Retry-After"]) in range(90, 101)
    assert "tenant 'capped' has used its quota requests_per_s: 0.01 requests per second" in text

    client = grpcclient.InferenceServerClient(tenants.server.grpc)
    with pytest.raises(InferenceServerException, match="requests_per_s") as caught:
        client.infer("slow", [_tensor([1])], headers=tenants.headers("capped"))
    assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    client.close()
    page = tenants.metrics()
    assert 'manta_tenant_refused_total{quota="requests_per_s",tenant="capped"} 2' in page
    assert 'manta_tenant_requests_total{tenant="capped"} 2' in page


def test_what_executions_took_is_measured_afterwards(tenants: Tenants) -> None:
    assert tenants.ask("costly", "slower")[0] == 200
    status, headers, text = tenants.ask("costly", "slower")
    assert (status, "gpu_seconds_per_s" in text) == (429, True)
    assert int(headers["Retry-After"]) >= 30
    seconds = [
        float(line.rpartition(" ")[2])
        for line in tenants.metrics().splitlines()
        if line.startswith('manta_tenant_compute_seconds_total{tenant="costly"}')
    ]
    assert seconds[0] >= 0.05


def test_tenants_that_are_not_named_have_the_limits_of_the_default(tenants: Tenants) -> None:
    assert _status_of_both(tenants, "stranger") == [200, 429]


def test_a_limit_of_the_cluster_is_lent_to_the_ingress_that_needs_it(tenants: Tenants) -> None:
    # Of 8 an ingress has 1 before its first lease.
    for _ in range(100):
        if _status_of_both(tenants, "shared") == [200, 200]:
            return
    raise AssertionError("no lease came")


def _status_of_both(tenants: Tenants, tenant: str) -> list[int]:
    """Return the statuses of two requests at once."""

    async def ask_both() -> list[tuple[int, dict[str, str], str]]:
        asked = (asyncio.to_thread(tenants.ask, tenant, "slower") for _ in range(2))
        return await asyncio.gather(*asked)

    return sorted(status for status, _, _ in asyncio.run(ask_both()))


def test_a_rule_sends_tenants_to_versions_of_their_own(tenants: Tenants) -> None:
    arms = [
        {"name": "all", "version": 1, "weight": 100},
        {"name": "early", "version": 2, "weight": 0},
    ]
    rules = [{"arm": "early", "conditions": [{"source": "tenant", "values": ["red"]}]}]
    document = {"kind": "ab", "arms": arms, "rules": rules}
    versions = {"red": 2, "blue": 1, "light": 1}
    with RolloutClient(tenants.server.running.http) as client:
        path, headers = "/v2/models/voter/rollout", tenants.headers("light")
        assert client.ask("PUT", path, document, headers)[0] == 200
        assert {
            tenant: {client.version(headers=tenants.headers(tenant)) for _ in range(10)}
            for tenant in versions
        } == {tenant: {version} for tenant, version in versions.items()}
        # The steps of an ensemble are for the tenant, too.
        assert client.outputs("pair", headers=tenants.headers("red")) == {
            "FIRST": [2],
            "SECOND": [2],
        }
        # Who may only ask does not choose the version for all.
        assert client.ask("DELETE", path, None, tenants.headers("red"))[0] == 403
    with grpcclient.InferenceServerClient(tenants.server.grpc) as client:
        for tenant, version in versions.items():
            answer = client.infer("voter", [_tensor([1, 1])], headers=tenants.headers(tenant))
            assert answer.as_numpy("VERSION").tolist() == [[version]]


def test_a_tenant_knows_nothing_of_models_that_its_grants_do_not_name(tenants: Tenants) -> None:
    with RolloutClient(tenants.server.running.http) as client:
        for tenant, models in MODELS.items():
            headers = tenants.headers(tenant)
            _, rows = client.ask("POST", "/v2/repository/index", {}, headers)
            assert {row["name"] for row in rows} == set(models)
            for path in ("", "/config", "/ready", "/infer"):
                hidden, absent = (
                    client.ask(*_asked(model, path), headers) for model in ("slower", "absent")
                )
                assert hidden[0] == absent[0] == 403, path
                assert _named(hidden, "slower") == _named(absent, "absent")
            assert client.ask(*_asked("voter", ""), headers)[0] == 200


def test_a_tenant_knows_nothing_of_models_of_others_over_grpc(tenants: Tenants) -> None:
    with grpcclient.InferenceServerClient(tenants.server.grpc) as client:
        for tenant, models in MODELS.items():
            headers = tenants.headers(tenant)
            index = client.get_model_repository_index(headers=headers)
            assert {row.name for row in index.models} == set(models)
            hidden, absent = (_refusals(client, model, headers) for model in ("slower", "absent"))
            assert hidden == absent
            assert {status for status, _ in hidden} == {"StatusCode.PERMISSION_DENIED"}
            assert client.get_model_metadata("voter", headers=headers).name == "voter"


def _asked(model: str, path: str) -> tuple[str, str, object]:
    """Return method, path and document of a request for a model."""
    document = json.loads(BODY) if path == "/infer" else None
    return ("GET" if document is None else "POST"), f"/v2/models/{model}{path}", document


def _named(answer: object, model: str) -> str:
    return repr(answer).replace(model, "MODEL")


def _refusals(
    client: grpcclient.InferenceServerClient, model: str, headers: dict[str, str]
) -> list[tuple[str, str]]:
    """Return status and text of what a caller may not do with a model, without its name."""
    asks: tuple[Callable[[], object], ...] = (
        lambda: client.get_model_metadata(model, headers=headers),
        lambda: client.get_model_config(model, headers=headers),
        lambda: client.is_model_ready(model, headers=headers),
        lambda: client.infer(model, [_tensor([1])], headers=headers),
    )
    found = []
    for ask in asks:
        with pytest.raises(InferenceServerException, match="may not") as caught:
            ask()
        found.append((caught.value.status(), caught.value.message().replace(model, "MODEL")))
    return found


def _tensor(shape: list[int]) -> grpcclient.InferInput:
    tensor = grpcclient.InferInput("X", shape, "INT32")
    tensor.set_data_from_numpy(np.ones(shape, np.int32))
    return tensor
