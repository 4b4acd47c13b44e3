# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta infer``, against Manta's HTTP port."""

import io
import json
import math
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.api.errors import UnknownError, UnsupportedError
from cluster.commands.client.command_line import make_parser, run
from cluster.commands.client.connection import Answer
from cluster.commands.client.infer import decoded, main
from tests.support.asked_server import asked
from tests.support.http_plane import FakePlane
from tests.support.stub_server import Stub

Output = pytest.CaptureFixture[str]
TENS = ",".join(map(str, range(0, 160, 10)))
ONES = ",".join("1" * 16)


async def test_numbers_are_sent_and_the_outputs_printed(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "simple", f"INPUT0={TENS}", f"INPUT1={ONES}") == 0
    assert capsys.readouterr().out.splitlines() == [
        "OUTPUT0 INT32[1,16]: 1 11 21 31 41 51 61 71 81 91 101 111 121 131 141 151",
        "OUTPUT1 INT32[1,16]: -1 9 19 29 39 49 59 69 79 89 99 109 119 129 139 149",
    ]


@pytest.mark.parametrize(
    ("model", "value", "printed"),
    [
        ("id_fp32", "0.1,2,inf", "OUTPUT0 FP32[1,3]: 0.1 2 inf"),
        ("half", "1,3", "OUT FP16[1,2]: 0.5 1.5"),
        ("id_bytes", "a=b, c", "OUTPUT0 BYTES[1,1]: a=b, c"),
        ("id_bytes", '["a","b"]', "OUTPUT0 BYTES[1,2]: a b"),
        ("id_bool", "true,false", "OUTPUT0 BOOL[1,2]: True False"),
        ("id_int64", ",".join("7" * 20), f"OUTPUT0 INT64[1,20]: {'7 ' * 16}... (20 values)"),
    ],
)
async def test_each_datatype_goes_there_and_back(
    model: str, value: str, printed: str, capsys: Output
) -> None:
    async with asked() as server:
        assert await server.run(main, model, value) == 0
    assert capsys.readouterr().out == f"{printed}\n"


async def test_files_and_standard_input_are_read(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.5, 2.5]], np.float32))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"piped\n")))
    async with asked() as server:
        assert await server.run(main, "id_fp32", f"@{tmp_path / 'x.npy'}") == 0
        assert await server.run(main, "id_bytes", "INPUT0=-") == 0
        assert await server.run(main, "id_fp32", "@/does/not/exist.npy") == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "OUTPUT0 FP32[1,2]: 1.5 2.5",
        "OUTPUT0 BYTES[1,1]: piped",
    ]
    assert captured.err == "error: /does/not/exist.npy: No such file or directory\n"


async def test_options_may_stand_between_the_model_and_its_values(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "id_fp32", "--id", "r1", "[[1,2]]") == 0
    assert capsys.readouterr().out == "OUTPUT0 FP32[1,2]: 1 2\n"


def test_what_is_behind_two_dashes_is_a_value() -> None:
    parser, given = make_parser("infer", ""), list[str]()
    parser.add_argument("input", nargs="*")
    assert run(parser, ["--", "-x"], lambda read: given.extend(read.input), mixes=True) == 0
    assert given == ["-x"]


async def test_json_has_the_values_of_all_outputs(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "half", "2,4", "--json", "--version", "1") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["model_name"], answer["model_version"]) == ("half", "1")
    assert answer["outputs"] == [
        {"name": "OUT", "datatype": "FP16", "shape": [1, 2], "data": [1.0, 2.0]}
    ]


@pytest.mark.parametrize("more", [[], ["--stream"]])
async def test_json_has_the_id_that_was_given(more: list[str], capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "id_bytes", "x", "--id", "a1", "--json", *more) == 0
        assert [each.id for each in server.plane.requests] == ["a1"]
        assert await server.run(main, "id_bytes", "x", "--json", *more) == 0
    decoder, text = json.JSONDecoder(), capsys.readouterr().out
    first, end = decoder.raw_decode(text)
    second, _ = decoder.raw_decode(text[end:].lstrip())
    assert first["id"] == "a1"
    assert "id" not in second


async def test_parameters_and_shapes_are_as_given(capsys: Output) -> None:
    async with asked() as server:
        given = ("-p", "sequence_id=7", "-p", "name=x", "--shape", "INPUT0:2,2")
        assert await server.run(main, "id_fp32", "1,2,3,4", *given) == 0
        (request,) = server.plane.requests
    assert request.correlation_id == 7
    assert request.parameters == {"name": "x"}
    assert "FP32[2,2]: 1 2 3 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["simple"], 2, "model 'simple' takes INPUT0=INT32[-1,16] INPUT1=INT32[-1,16]."),
        (["simpel", "1"], 1, "the server has no model 'simpel'. Did you mean 'simple'?"),
        (["broken", "1"], 1, "model 'broken' is not served: no file"),
        (["absent", "1"], 1, "model 'absent' is not served: not loaded"),
        (["id_fp32", "a"], 1, "'a' is no number"),
        (["id_fp32", "1", "--shape", "2"], 1, "has 2 elements, got 1"),
        (["id_fp32", "1", "--shape", "Y:1"], 1, "no input 'Y'"),
        (["id_fp32", "1", "--shape", "x"], 2, "expected NAME:N,M"),
        (["id_fp32", "1", "-p", "x"], 2, "expected NAME=VALUE"),
        (["simple", f"INPUT0={ONES}"], 1, "expected 2 inputs but got 1"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], code: int, said: str, capsys: Output
) -> None:
    async with asked() as server:
        assert await server.run(main, *arguments) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


async def test_the_call_for_curl_gives_the_same_answer(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "half", "1,3", "--curl") == 0
        line = capsys.readouterr().out
        assert not server.plane.requests
        await server.run(lambda _: subprocess.run(line, shell=True, check=True).returncode)
        (request,) = server.plane.requests
    assert bytes(request.inputs[0].data) == np.array([1, 3], np.float16).tobytes()


async def test_the_call_for_python_sends_nothing(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "id_fp32", "1,3", "--python") == 0
        assert not server.plane.requests
    text = capsys.readouterr().out
    compile(text, "call", "exec")
    assert f"InferenceServerClient('{server.url}')" in text


async def test_responses_of_a_stream_are_printed_as_they_come(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "id_bytes", "hello", "--stream") == 0
        assert await server.run(main, "id_bytes", "hello", "--stream", "--json") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "hello"
    assert json.loads(second)["OUTPUT0"] == "hello"


def test_an_error_within_a_stream_ends_it(capsys: Output) -> None:
    inputs = [{"name": "X", "datatype": "INT32", "shape": [1]}]
    with Stub() as stub:
        stub.answers["GET", "/v2/models/m"] = (200, json.dumps({"inputs": inputs}).encode())
        text = b'data: {"Y": 1, "Z": [2]}\n\ndata: {"error": "it broke"}\n\n'
        stub.answers["POST", "/v2/models/m/generate_stream"] = (200, text)
        assert main(["m", "1", "--stream", "--url", stub.url]) == 1
    captured = capsys.readouterr()
    assert captured.out == "Y=1  Z=[2]\n"
    assert captured.err == "error: it broke\n"


async def test_a_decoupled_model_is_said_to_need_a_stream(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedError("doesn't support models with decoupled transaction policy")

    monkeypatch.setattr(FakePlane, "infer", refuse)
    async with asked() as server:
        assert await server.run(main, "id_bytes", "x") == 1
    assert capsys.readouterr().err == "error: model 'id_bytes' is decoupled; give --stream\n"


def test_outputs_in_json_and_in_binary_are_read() -> None:
    rows = [
        {"name": "A", "datatype": "INT32", "shape": [1], "data": [1]},
        {
            "name": "B",
            "datatype": "FP32",
            "shape": [1],
            "parameters": {"binary_data_size": 4},
        },
    ]
    text = json.dumps({"outputs": rows}).encode()
    headers = {"inference-header-content-length": str(len(text))}
    first, second = decoded(Answer(text + b"\0\0\x80\x7f", headers))["outputs"]
    assert (first["data"], second["data"]) == ([1], [math.inf])


def test_an_output_of_an_unknown_datatype_is_refused() -> None:
    row = {"name": "A", "datatype": "X9", "shape": [1], "parameters": {"binary_data_size": 0}}
    with pytest.raises(UnknownError, match="'X9'"):
        decoded(Answer(json.dumps({"outputs": [row]}).encode(), {}))
