# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who may ask what: all callers, routes and RPCs against a server with a policy, plain and TLS."""

import functools
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from deployments.grpc.kserve.service import PATHS
from tests.integration.conftest import write_add_sub
from tests.support.access_matrix import (
    LIMITED_MODEL,
    Asked,
    Caller,
    grpc_request,
    http_requests,
    make_policy,
    names_model,
)
from tests.support.policed_server import PolicedServer
from tests.support.unix_sockets import connection_to

REFUSED_HTTP = (401, 403)
REFUSED_GRPC = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
HIDDEN_MODEL, ABSENT_MODEL = "hidden", "absent"


class Guarded:
    """A server with the matrix's policy, and its callers."""

    def __init__(self, server: PolicedServer, folder: Path) -> None:
        self.server, self.models = server, folder / "models"
        self.has_tls = server.pems is not None
        self.policy, callers = make_policy(folder)
        self.callers = [each for each in callers if self.has_tls or not each.certificate]
        for name in (LIMITED_MODEL, HIDDEN_MODEL):
            write_add_sub(self.models, name)

    @property
    def shown(self) -> list[str]:
        """What the callers show."""
        headers = [value for caller in self.callers for _, value in caller.headers]
        return [value.removeprefix("Bearer ") for value in headers]

    def http(self, caller: Caller) -> http.client.HTTPConnection:
        return self.server.connection(certificate=caller.certificate)

    def grpc(self, caller: Caller) -> grpc.Channel:
        return self.server.channel(caller.certificate)


@pytest.fixture(
    scope="module",
    params=[pytest.param("policed", id="plain"), pytest.param("encrypted", id="TLS")],
)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    server = request.getfixturevalue(request.param)
    here = Guarded(server, tmp_path_factory.mktemp("access"))
    with server.governed(here.policy, here.models, shown=here.shown):
        yield here


def ask_http(
    connection: http.client.HTTPConnection, asked: Asked, caller: Caller, model: str
) -> Any:
    """Return status and text of an answer."""
    body = b"{}" if asked.method == "POST" else None
    connection.request(asked.method, asked.path.format(model), body, dict(caller.headers))
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == 401:
        assert str(answer.getheader("WWW-Authenticate")).startswith("Bearer")
    return answer.status, text


def ask_grpc(channel: grpc.Channel, path: bytes, caller: Caller, model: str) -> Any:
    """Return code and text of a call; OK of one that has given an answer."""
    call = channel.stream_stream(path.decode())(
        iter([grpc_request(path, model)]), timeout=30, metadata=caller.headers
    )
    try:
        message = next(call)
    except grpc.RpcError as error:
        return error.code(), error.details()
    except StopIteration:
        return grpc.StatusCode.OK, ""
    call.cancel()
    return grpc.StatusCode.OK, message


def is_open(category: str) -> bool:
    """Whether the policy, which says nothing of it, leaves a category open to all: health."""
    return category in ("", "health")


def test_only_valid_credentials_reach_a_route(guarded: Guarded) -> None:
    for caller in guarded.callers:
        connection = guarded.http(caller)
        shows_nothing = not caller.headers and caller.certificate != "server"
        for asked in http_requests():
            status, _ = ask_http(connection, asked, caller, ABSENT_MODEL)
            case = (caller.name, asked)
            if caller.is_valid and not caller.is_limited:
                assert status not in REFUSED_HTTP, case
            elif not caller.is_valid:
                assert (status == 401) != (shows_nothing and is_open(asked.category)), case
        connection.close()


def test_only_valid_credentials_reach_an_rpc(guarded: Guarded) -> None:
    open_paths = (b"Live", b"Ready", b"Check", b"Watch")
    for caller in guarded.callers:
        shows_nothing = not caller.headers and caller.certificate != "server"
        with guarded.grpc(caller) as channel:
            for path in sorted(PATHS):
                code, _ = ask_grpc(channel, path, caller, ABSENT_MODEL)
                case = (caller.name, path)
                if caller.is_valid and not caller.is_limited:
                    assert code not in REFUSED_GRPC, case
                elif not caller.is_valid:
                    passes = shows_nothing and path.endswith(open_paths)
                    assert (code is grpc.StatusCode.UNAUTHENTICATED) != passes, case


def _limited(guarded: Guarded) -> list[Caller]:
    return [each for each in guarded.callers if each.is_limited]


def test_a_model_without_a_grant_is_refused_as_one_that_is_not_there_by_http(
    guarded: Guarded,
) -> None:
    for caller in _limited(guarded):
        connection = guarded.http(caller)
        ask = functools.partial(ask_http, connection)
        for asked in http_requests():
            if not asked.is_of_model or is_open(asked.category):
                continue
            hidden, absent = (ask(asked, caller, name) for name in (HIDDEN_MODEL, ABSENT_MODEL))
            assert hidden[0] == 403, (caller.name, asked)
            assert _without_name(hidden[1], HIDDEN_MODEL) == _without_name(absent[1], ABSENT_MODEL)
            if not asked.path.endswith("/unload"):
                assert ask(asked, caller, LIMITED_MODEL)[0] not in REFUSED_HTTP, asked
        connection.close()


def test_a_model_without_a_grant_is_refused_as_one_that_is_not_there_by_grpc(
    guarded: Guarded,
) -> None:
    for caller in _limited(guarded):
        with guarded.grpc(caller) as channel:
            for path in filter(names_model, sorted(PATHS)):
                if path.endswith(b"ModelReady"):
                    continue
                hidden, absent = (
                    ask_grpc(channel, path, caller, name) for name in (HIDDEN_MODEL, ABSENT_MODEL)
                )
                texts = _texts(hidden[1], HIDDEN_MODEL), _texts(absent[1], ABSENT_MODEL)
                assert hidden[0] is absent[0]
                assert texts[0] == texts[1]
                if path.endswith(b"ModelStreamInfer"):
                    assert b"may not" in hidden[1]
                else:
                    assert hidden[0] is grpc.StatusCode.PERMISSION_DENIED, (caller.name, path)
                if not path.endswith(b"Unload"):
                    code, _ = ask_grpc(channel, path, caller, LIMITED_MODEL)
                    assert code not in REFUSED_GRPC, path


def test_lists_have_only_what_a_caller_may_ask_for(guarded: Guarded) -> None:
    caller = _limited(guarded)[0]
    connection = guarded.http(caller)
    for asked in (
        Asked("POST", "/v2/repository/index", ""),
        Asked("GET", "/v2/models/stats", ""),
    ):
        status, text = ask_http(connection, asked, caller, "")
        assert status == 200
        assert LIMITED_MODEL.encode() in text
        assert HIDDEN_MODEL.encode() not in text
    connection.close()


def test_settings_of_all_models_are_not_changed_by_who_has_one(guarded: Guarded) -> None:
    caller = _limited(guarded)[0]
    connection = guarded.http(caller)
    headers = dict(caller.headers)
    for path, change in (
        ("/v2/logging", b'{"log_verbose_level": 1}'),
        ("/v2/trace/setting", b'{"trace_rate": "7"}'),
    ):
        connection.request("POST", path, change, headers)
        answer = connection.getresponse()
        assert answer.status == 403
        answer.read()
    connection.close()


def test_metrics_need_their_role(guarded: Guarded) -> None:
    connection = connection_to(guarded.server.running.metrics)
    asked = Asked("GET", "/metrics", "")
    for caller in guarded.callers:
        if not caller.certificate:
            status, _ = ask_http(connection, asked, caller, "")
            assert status == (200 if caller.is_valid else 401), caller.name
    connection.close()


@pytest.mark.parametrize("name", ["stranger", "expired"])
def test_a_certificate_that_cannot_be_trusted_makes_no_connection(
    guarded: Guarded, name: str
) -> None:
    if not guarded.has_tls:
        # Without TLS no certificate is shown.
        return
    caller = Caller(name, certificate=name)
    connection = guarded.http(caller)
    with pytest.raises((OSError, http.client.HTTPException)):
        ask_http(connection, Asked("GET", "/v2/health/live", ""), caller, "")
    with guarded.grpc(caller) as channel:
        code, _ = ask_grpc(channel, b"/grpc.health.v1.Health/Check", caller, "")
    assert code is grpc.StatusCode.UNAVAILABLE


def _without_name(text: bytes, name: str) -> bytes:
    return text.replace(name.encode(), b"NAME")


def _texts(given: bytes | str, name: str) -> bytes:
    encoded = given.encode() if isinstance(given, str) else given
    # A message's size changes with a name's.
    return encoded.replace(name.encode(), b"NAME")
