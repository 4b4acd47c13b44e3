# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the OpenAPI document."""

import json
import re

import pytest

from deployments.http.kserve.application import HttpIngress
from deployments.http.openapi.document import RoutedPath, make_document, templates
from deployments.http.openapi.operations import OPERATIONS
from tests.support.http_plane import FakePlane, request, running


@pytest.fixture
def ingress() -> HttpIngress:
    return HttpIngress(FakePlane())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/v2", ["/v2"]),
        (r"/v2/a\.json", ["/v2/a.json"]),
        ("/a(?:/b/(?P<name>[^/]+))?", ["/a", "/a/b/{name}"]),
        (
            "(?:/x/(?P<a>[0-9]+))?/m(?:/(?P<b>[^/]+))?",
            ["/m", "/m/{b}", "/x/{a}/m", "/x/{a}/m/{b}"],
        ),
    ],
)
def test_a_pattern_stands_for_every_choice_of_its_optional_parts(
    pattern: str, expected: list[str]
) -> None:
    assert templates(pattern) == expected


def test_every_route_stands_in_the_document_and_nothing_else_does(ingress: HttpIngress) -> None:
    document = ingress.openapi()
    described = {
        (path, method.upper()) for path, item in document["paths"].items() for method in item
    }
    for route in ingress._routes:
        for method in route.described().methods:
            paths = templates(route.pattern.pattern)
            assert {(path, method) for path in paths} <= described
            described -= {(path, method) for path in paths}
    assert described == set()


def test_every_described_operation_is_routed(ingress: HttpIngress) -> None:
    routed = {
        (templates(route.pattern.pattern)[0], method)
        for route in ingress._routes
        for method in route.described().methods
    }
    assert routed == set(OPERATIONS)


def test_a_route_without_a_description_is_refused() -> None:
    with pytest.raises(KeyError):
        make_document([RoutedPath("/v2/undescribed", ("GET",), "")], "2")


def test_every_reference_resolves_and_every_operation_has_its_own_id(ingress: HttpIngress) -> None:
    document = ingress.openapi()
    for kind, name in re.findall(r'"#/components/(\w+)/([^"]+)"', json.dumps(document)):
        assert name in document["components"][kind]
    ids = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(ids) == len(set(ids))


async def test_the_document_is_served() -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request("GET", "/v2/openapi.json"))
        again = await client.call(request("GET", "/v2/openapi.json"))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["openapi"] == "3.1.0"
    assert again.body == answer.body
