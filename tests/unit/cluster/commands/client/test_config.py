# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta config``, against Manta's HTTP port."""

import json
from pathlib import Path

import pytest

from backends.config.normalisation import infer_backend, normalise
from backends.config.pbtxt import parse_pbtxt
from cluster.commands.client.config import main
from cluster.commands.graph import main as graph
from tests.support.asked_server import Asked, asked
from tests.support.http_plane import identity

Output = pytest.CaptureFixture[str]
TEXT = """name: "m" backend: "python" platform: "p" max_batch_size: 4
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 2 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 2 ] } ]
dynamic_batching { }
"""


def serve(server: Asked) -> None:
    config = infer_backend(parse_pbtxt(TEXT, "m"), None)
    server.plane.add(normalise(config, gpu_ids=()), identity)


async def test_the_served_config_is_printed_with_its_defaults(capsys: Output) -> None:
    async with asked() as server:
        serve(server)
        assert await server.run(main, "show", "m") == 0
        text = capsys.readouterr().out
        assert await server.run(main, "show", "m", "--json") == 0
    assert parse_pbtxt(text, "printed").max_batch_size == 4
    assert "instance_group" in text
    assert json.loads(capsys.readouterr().out)["max_batch_size"] == 4


async def test_a_model_that_is_not_there_is_named_with_the_nearest(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "show", "simpel") == 1
        assert "has no model 'simpel'. Did you mean 'simple'?" in capsys.readouterr().err
        assert await server.run(main, "show", "broken") == 1
        assert "model 'broken' is not served: no file" in capsys.readouterr().err
        assert await server.run(graph, "simpel") == 1
        assert "Did you mean 'simple'?" in capsys.readouterr().err


async def test_a_file_that_says_the_same_in_fewer_words_does_not_differ(
    tmp_path: Path, capsys: Output
) -> None:
    (tmp_path / "config.pbtxt").write_text(TEXT.replace('name: "m"', ""))
    async with asked() as server:
        serve(server)
        assert await server.run(main, "diff", "m", str(tmp_path)) == 0
    assert "is served as" in capsys.readouterr().out


async def test_what_a_file_would_change_is_a_diff_and_exit_code_1(
    tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "config.pbtxt"
    file.write_text(TEXT.replace("max_batch_size: 4", "max_batch_size: 16"))
    async with asked() as server:
        serve(server)
        assert await server.run(main, "diff", "m", str(file)) == 1
        lines = capsys.readouterr().out.splitlines()
        assert await server.run(main, "diff", "m", str(file), "--json") == 1
    assert "-max_batch_size: 16" in lines
    assert "+max_batch_size: 4" in lines
    assert json.loads(capsys.readouterr().out)["differs"] is True


async def test_a_file_that_is_no_config_is_said_with_its_place(
    tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "config.pbtxt"
    file.write_text("max_batch: 4")
    async with asked() as server:
        serve(server)
        assert await server.run(main, "diff", "m", str(file)) == 1
    assert str(file) in capsys.readouterr().err
