# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta show``, against Manta's HTTP port."""

import json
import subprocess

import pytest

from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from cluster.commands.client.show import main
from tests.support.asked_server import asked
from tests.support.http_plane import identity

Output = pytest.CaptureFixture[str]


async def test_a_model_is_shown_with_its_tensors_and_a_call_that_works(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "simple") == 0
        text = capsys.readouterr().out
        line = text.splitlines()[-1]
        await server.run(lambda _: subprocess.run(line, shell=True, check=True).returncode)
        (request,) = server.plane.requests
    assert text.splitlines()[:8] == [
        "model      simple",
        "version    1  READY, 1 instance",
        "version    2  READY, 1/2 instances",
        "platform   python, batches up to 8",
        "input      INPUT0  INT32[-1,16]",
        "input      INPUT1  INT32[-1,16]",
        "output     OUTPUT0  INT32[-1,16]",
        "output     OUTPUT1  INT32[-1,16]",
    ]
    assert [each.shape for each in request.inputs] == [(1, 16)] * 2


async def test_a_large_input_has_a_call_that_works_too(capsys: Output) -> None:
    config = ModelConfig(
        "large",
        input=(ModelInput("INPUT0", "FP32", (3, 200)),),
        output=(ModelOutput("OUTPUT0", "FP32", (3, 200)),),
    )
    async with asked() as server:
        server.plane.add(config, identity)
        server.plane.repository.rows.append({"name": "large", "version": "1", "state": "READY"})
        assert await server.run(main, "large", "--json") == 0
        line = json.loads(capsys.readouterr().out)["curl"]
        await server.run(
            lambda _: subprocess.run(line, shell=True, check=True, capture_output=True).returncode
        )
        (request,) = server.plane.requests
    assert bytes(request.inputs[0].data) == bytes(2400)


async def test_a_model_that_is_not_served_is_shown_with_its_reason(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "broken") == 0
    assert capsys.readouterr().out.splitlines() == [
        "model      broken",
        "version    1  UNAVAILABLE, 0 instances",
        "           no",
        "           file",
    ]


async def test_an_unknown_model_fails_with_the_nearest(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "simpl") == 1
    assert "Did you mean 'simple'?" in capsys.readouterr().err
