# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The plane as one caller may see it."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TritonError,
    UnauthenticatedError,
)
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.access.contracts import Role
from deployments.contracts.control import RepositoryControl
from deployments.data_plane.face import Plane, PlaneSettings
from deployments.data_plane.policy_tenants import PolicyTenants
from deployments.data_plane.view import CallerPlane
from deployments.security.caller import ANONYMOUS
from tests.support.http_plane import FakePlane, add_sub, simple_config
from tests.support.key_guard import EVERYTHING, rights_of
from tests.support.lane_rig import Sink

# How each member of a plane is asked for a model of a name, and the roles any of which it needs.
# None: it shows nothing of the server, but carries what other members let in.
PLANE: dict[str, tuple[Callable[[Any, str], Any], tuple[Role, ...]] | None] = {
    "exiting": None,
    "slabs": None,
    "tracer": None,
    "repository": None,
    "settings": None,
    # What the caller may not have is left out of an answer that it may have.
    "recent_metrics_text": None,
    "first_use": None,
    # Of what `resolve` has returned.
    "infer": None,
    "rollouts": None,
    "has_started": (lambda plane, name: plane.has_started, (Role.HEALTH,)),
    "draining": (lambda plane, name: plane.draining, (Role.HEALTH,)),
    "server_live": (lambda plane, name: plane.server_live(), (Role.HEALTH,)),
    "server_ready": (lambda plane, name: plane.server_ready(), (Role.HEALTH,)),
    "model_ready": (lambda plane, name: plane.model_ready(name), (Role.HEALTH,)),
    "says_ready": (lambda plane, name: plane.says_ready(name), (Role.HEALTH,)),
    "is_unread": (lambda plane, name: plane.is_unread(name), (Role.HEALTH,)),
    "server_metadata": (lambda plane, name: plane.server_metadata(), (Role.METADATA,)),
    "ready_models": (lambda plane, name: plane.ready_models(), (Role.METADATA,)),
    "model_metadata": (lambda plane, name: plane.model_metadata(name), (Role.METADATA,)),
    "model_config": (lambda plane, name: plane.model_config(name), (Role.METADATA,)),
    "model_config_json": (lambda plane, name: plane.model_config_json(name), (Role.METADATA,)),
    "statistics": (lambda plane, name: plane.statistics(name), (Role.STATISTICS,)),
    "metrics_text": (lambda plane, name: plane.metrics_text(), (Role.METRICS,)),
    "resolve": (lambda plane, name: plane.resolve(name), (Role.INFER,)),
}
REPOSITORY: dict[str, tuple[Callable[[Any, str], Any], tuple[Role, ...]]] = {
    "index": (
        lambda plane, name: plane.repository.index(ready_only=False),
        (Role.CONTROL, Role.METADATA),
    ),
    "instances": (lambda plane, name: plane.repository.instances(), (Role.METADATA,)),
    "events": (lambda plane, name: plane.repository.events(since=0), (Role.METADATA,)),
    "load": (lambda plane, name: plane.repository.load(name, {}), (Role.CONTROL,)),
    "unload": (
        lambda plane, name: plane.repository.unload(name, unload_dependents=False),
        (Role.CONTROL,),
    ),
}
_MEMORY = (Role.SHARED_MEMORY,)
SETTINGS: dict[str, tuple[Callable[[Any, str], Any], tuple[Role, ...]]] = {
    "log": (lambda plane, name: plane.settings.log, (Role.SETTINGS,)),
    "change_log": (lambda plane, name: plane.settings.change_log({}), (Role.SETTINGS,)),
    "trace": (lambda plane, name: plane.settings.trace(name), (Role.SETTINGS,)),
    "change_trace": (lambda plane, name: plane.settings.change_trace(name, {}), (Role.SETTINGS,)),
    "regions": (lambda plane, name: plane.settings.regions(), _MEMORY),
    "require_client_memory": (lambda plane, name: plane.settings.require_client_memory(), _MEMORY),
    "register_system": (lambda plane, _: plane.settings.register_system("r", "/k", 0, 1), _MEMORY),
    "register_cuda": (lambda plane, _: plane.settings.register_cuda("r", b"h", 0, 1), _MEMORY),
    "unregister": (lambda plane, _: plane.settings.unregister(), _MEMORY),
}
ASKED = {**{name: row for name, row in PLANE.items() if row}, **REPOSITORY, **SETTINGS}


def _members(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("protocol", "table"),
    [(Plane, PLANE), (RepositoryControl, REPOSITORY), (PlaneSettings, SETTINGS)],
)
def test_each_member_of_a_plane_has_its_role(protocol: type, table: dict[str, Any]) -> None:
    assert _members(protocol) == set(table)


async def _ask(plane: CallerPlane, member: str, name: str = "simple") -> object:
    asked = ASKED[member][0](plane, name)
    return await asked if isinstance(asked, Awaitable) else asked


@pytest.mark.parametrize("member", sorted(ASKED))
async def test_a_caller_without_the_role_is_refused_whether_there_is_the_model(member: str) -> None:
    roles = ASKED[member][1]
    others = tuple((role, "*") for role in Role if role not in roles)
    plane = CallerPlane(FakePlane(), rights_of(*others))
    texts = []
    for name in ("simple", "absent"):
        with pytest.raises(PermissionDeniedError) as caught:
            await _ask(plane, member, name)
        texts.append(caught.value.message.replace(name, "NAME"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("member", sorted(ASKED))
async def test_a_caller_with_the_role_gets_what_the_plane_says(member: str) -> None:
    for role in ASKED[member][1]:
        with_role = CallerPlane(FakePlane(), rights_of((role, "*")))
        outcome: object = None
        try:
            outcome = await _ask(with_role, member)
        except TritonError as error:
            outcome = error
        assert not isinstance(outcome, PermissionDeniedError)


@pytest.mark.parametrize("name", ["id_fp32", "space/id_fp32", "id_fp64", "space/id_fp64"])
async def test_a_model_is_refused_by_its_name_however_it_is_asked_for(name: str) -> None:
    plane = CallerPlane(FakePlane(), rights_of((Role.INFER, "simple"), (Role.INFER, "space/*")))
    for version in ("", "1", "9"):
        with pytest.raises(PermissionDeniedError):
            plane.resolve(name, version)


@pytest.mark.parametrize("name", ["", "x/", "/"])
async def test_a_name_that_is_none_gives_no_model(name: str) -> None:
    plane = CallerPlane(FakePlane(), rights_of((Role.INFER, "simple")))
    with pytest.raises((PermissionDeniedError, NotFoundError)):
        plane.resolve(name)


async def test_who_showed_nothing_is_asked_for_credentials() -> None:
    plane = CallerPlane(FakePlane(), rights_of((Role.HEALTH, "*"), method=ANONYMOUS.method))
    assert plane.server_live()
    with pytest.raises(UnauthenticatedError):
        plane.resolve("simple")


async def test_lists_tell_of_what_the_caller_may_ask_for() -> None:
    whole = FakePlane()

    async def index(*, ready_only: bool) -> list[dict[str, str]]:
        return [{"name": name} for name in ("a", "b", "c")]

    async def statistics(name: str = "", version: str = "") -> dict[str, Any]:
        return {"model_stats": [{"name": each} for each in ("a", "b", "c")]}

    async def instances() -> list[dict[str, str]]:
        return [{"model": name} for name in ("a", "b", "c")]

    async def events(*, since: int) -> list[dict[str, str]]:
        return [{"model": name} for name in ("", "a", "b", "c")]

    whole.repository.index = index  # type: ignore[method-assign]
    whole.repository.events = events  # type: ignore[method-assign]
    whole.repository.instances = instances  # type: ignore[method-assign]
    whole.statistics = statistics  # type: ignore[method-assign]
    granted = ((Role.METADATA, "a"), (Role.CONTROL, "b"), (Role.STATISTICS, "c"))
    plane = CallerPlane(whole, rights_of(*granted))
    rows = await plane.repository.index(ready_only=False)
    assert [row["name"] for row in rows] == ["a", "b"]
    assert await plane.repository.instances() == [{"model": "a"}]
    assert await plane.repository.events(since=0) == [{"model": ""}, {"model": "a"}]
    assert (await plane.statistics())["model_stats"] == [{"name": "c"}]
    whole.add(replace(simple_config(), name="a"), add_sub)
    assert [each.name for each in plane.ready_models()] == ["a"]


@pytest.mark.parametrize("pattern", ["simple", "s*", "?*"])
async def test_what_concerns_all_models_is_changed_only_by_who_may_change_all(pattern: str) -> None:
    grants = ((Role.CONTROL, pattern), (Role.SETTINGS, pattern))
    plane = CallerPlane(FakePlane(), rights_of(*grants))
    await plane.repository.unload("simple", unload_dependents=False)
    await plane.settings.change_trace("simple", {"rate": 7})
    assert plane.settings.trace("").rate
    for change in (
        plane.repository.unload("simple", unload_dependents=True),
        plane.settings.change_trace("", {"rate": 7}),
        plane.settings.change_log({"verbose": 1}),
    ):
        with pytest.raises(PermissionDeniedError):
            await change


async def test_first_use_loads_nothing_for_who_may_not_use_it() -> None:
    whole = FakePlane()
    whole.unread["late"] = whole.models["simple"]
    assert CallerPlane(whole, rights_of((Role.INFER, "other"))).first_use("late") is None
    loading = CallerPlane(whole, rights_of((Role.INFER, "late"))).first_use("late")
    assert loading is not None
    await loading


def _request(**fields: Any) -> InferenceRequest:
    inputs = [tensor_from_numpy(name, np.zeros((1, 16), np.int32)) for name in ("INPUT0", "INPUT1")]
    return InferenceRequest("simple", inputs=inputs, **fields)


async def test_a_request_in_shared_memory_needs_its_role_too() -> None:
    plane = CallerPlane(FakePlane(), rights_of((Role.INFER, "*")))
    with pytest.raises(PermissionDeniedError, match="shared-memory"):
        plane.infer(plane.resolve("simple"), _request(regions={}), Sink())


class Desk(PolicyTenants):
    """Counts what it admits, and is what it returns."""

    def __init__(self) -> None:
        super().__init__(dict, lambda: 1)
        self.told = (0, 0)
        self.admitted: list[tuple[str, str, int, float]] = []
        self.released = 0
        self.is_full = False

    def admit(self, tenant: str, model_key: str, size_bytes: int, now_s: float) -> "Desk":
        if self.is_full:
            raise ResourceExhaustedError("the tenant has what it may have")
        self.admitted.append((tenant, model_key, size_bytes, now_s))
        return self

    def mark(self, request: InferenceRequest) -> None:
        request.tenant = self.admitted[-1][0]

    def __call__(self, compute_ns: int = 0, queue_ns: int = 0) -> None:
        self.told = compute_ns, queue_ns
        self.released += 1


async def test_a_request_counts_for_its_tenant_until_its_outcome() -> None:
    whole, desk = FakePlane(), Desk()
    whole.is_holding = True
    rights = rights_of(*EVERYTHING, tenant="blue")
    plane = CallerPlane(whole, rights, desk, now_s=lambda: 7.0)
    plane.infer(plane.resolve("simple"), _request(), Sink())
    assert desk.admitted == [("blue", "simple", 128, 7.0)]
    assert whole.pending[0].request.tenant == "blue"
    assert desk.released == 0
    whole.pending[0].finish()
    assert desk.released == 1


async def test_a_request_that_is_refused_counts_no_more() -> None:
    desk = Desk()
    plane = CallerPlane(FakePlane(), rights_of(*EVERYTHING), desk)
    asked = _request()
    asked.inputs.pop()
    with pytest.raises(InvalidArgumentError):
        plane.infer(plane.resolve("simple"), asked, Sink())
    assert desk.released == 1
    desk.is_full = True
    with pytest.raises(ResourceExhaustedError):
        plane.infer(plane.resolve("simple"), _request(), Sink())
    assert (len(desk.admitted), desk.released) == (1, 1)


async def test_a_stream_of_responses_is_counted_out_once_with_the_last() -> None:
    whole, desk, heard = FakePlane(), Desk(), []
    whole.is_holding = True

    class Port:
        def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
            heard.append(("respond", final, desk.released))

        def fail(self, error: TritonError, *, final: bool = True) -> None:
            heard.append(("fail", final, desk.released))

    plane = CallerPlane(whole, rights_of(*EVERYTHING), desk)
    plane.infer(plane.resolve("simple"), _request(), Port())
    counted = whole.pending[0].sink
    counted.respond(InferenceResponse("m", "1", share_ns=3, queue_ns=5), final=False)
    counted.fail(NotFoundError("no"), final=False)
    counted.respond(InferenceResponse("m", "1", share_ns=3, queue_ns=-1), final=False)
    counted.respond(InferenceResponse("m", "1", share_ns=3, queue_ns=5), final=False)
    counted.respond(None, final=True)
    assert desk.told == (9, 10)
    assert [each[2] for each in heard] == [0, 0, 0, 0, 1]
    assert desk.released == 1


async def test_what_is_denied_or_changes_something_is_noted() -> None:
    noted: list[tuple[str, str, str]] = []
    rights = rights_of((Role.INFER, "simple"), (Role.CONTROL, "simple"))
    plane = CallerPlane(FakePlane(), rights, note=lambda *line: noted.append(line))
    plane.infer(plane.resolve("simple"), _request(), Sink())
    await plane.repository.load("simple", {})
    with pytest.raises(PermissionDeniedError):
        plane.model_metadata("space/other")
    assert noted == [
        ("infer", "simple", "allowed"),
        ("load", "simple", "allowed"),
        ("metadata", "other", "denied"),
    ]
