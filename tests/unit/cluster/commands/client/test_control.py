# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta load`` and ``unload``, against Manta's HTTP port."""

import json
from pathlib import Path

import pytest

from backends.api.errors import UnavailableError
from cluster.commands.client.control import load, unload
from tests.support.asked_server import asked

Output = pytest.CaptureFixture[str]


async def test_models_are_loaded_one_after_the_other(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(load, "simple", "a b") == 0
        calls = [call for call in server.plane.repository.calls if call[0] == "load"]
    assert calls == [("load", "simple", {}), ("load", "a b", {})]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("loaded simple versions 1, 2 in ")
    assert second.startswith("loaded a b in ")


async def test_a_load_that_fails_is_told_and_the_others_are_loaded(capsys: Output) -> None:
    async with asked() as server:
        server.plane.repository.failures["simple"] = "no\nmodel.py"
        assert await server.run(load, "simple", "half") == 1
        names = [call[1] for call in server.plane.repository.calls if call[0] == "load"]
    assert names == ["simple", "half"]
    assert capsys.readouterr().err == "error: simple: no model.py\n"


async def test_a_config_goes_along_as_json(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"max_batch_size": 4}')
    async with asked() as server:
        assert await server.run(load, "simple", "--config", str(file), "--json") == 0
        ((_, _, parameters),) = server.plane.repository.calls
        assert json.loads(str(parameters["config"])) == {"max_batch_size": 4}
        file.write_text("max_batch_size: 4")
        assert await server.run(load, "simple", "--config", str(file)) == 1
    assert "is no JSON" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "wanted"), [((), False), (("--dependents",), True)])
async def test_models_are_unloaded_with_those_they_use_if_asked(
    flags: tuple[str, ...], wanted: bool, capsys: Output
) -> None:
    async with asked() as server:
        assert await server.run(unload, "simple", *flags) == 0
        assert server.plane.repository.calls == [("unload", "simple", wanted)]
    assert capsys.readouterr().out.startswith("unloaded simple in ")


async def test_a_server_that_loads_nothing_by_request_is_said_with_the_flag(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    async with asked() as server:
        monkeypatch.setattr(server.plane.repository, "load", refuse)
        assert await server.run(load, "simple", "other") == 1
    assert capsys.readouterr().err.count("--model-control-mode=explicit") == 2


async def test_without_a_server_no_model_is_tried(capsys: Output) -> None:
    async with asked() as server:
        pass
    assert await server.run(load, "a", "b") == 1
    assert capsys.readouterr().err.count("no server at") == 1
