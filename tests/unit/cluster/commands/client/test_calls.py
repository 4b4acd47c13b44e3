# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls for curl and tritonclient."""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.address import parse_address
from cluster.commands.client.calls import Call, as_curl, as_python
from cluster.commands.client.contexts import Target
from cluster.commands.client.tensors import Tensor

SMALL = Call("m", tensors=[Tensor("X", "INT32", (1, 2), [1, 2])])
TEXT = Call("it's", tensors=[Tensor("T", "BYTES", (1,), ["it's"])])
LARGE = Call("m", tensors=[Tensor("X", "FP32", (1, 100), bytes(400))])


def curl(
    call: Call,
    target: Target | None = None,
    environ: Mapping[str, str] = {},
    *,
    is_stream: bool = False,
) -> str:
    target = target or Target("host:1")
    return as_curl(call, parse_address(target.url), target, environ, is_stream=is_stream)


def test_small_inputs_are_written_out() -> None:
    words = shlex.split(curl(SMALL))
    assert words[:3] == ["curl", "-s", "http://host:1/v2/models/m/infer"]
    (row,) = json.loads(words[-1])["inputs"]
    assert row == {"name": "X", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}


def test_quotes_of_names_and_texts_survive_the_shell() -> None:
    words = shlex.split(curl(TEXT))
    assert "http://host:1/v2/models/it%27s/infer" in words
    assert json.loads(words[-1])["inputs"][0]["data"] == ["it's"]


def test_a_stream_is_asked_for_as_the_generate_extension_has_it() -> None:
    words = shlex.split(curl(TEXT, is_stream=True))
    assert words[1] == "-sN"
    assert words[2].endswith("/generate_stream")
    assert json.loads(words[-1]) == {"T": "it's"}
    with pytest.raises(InvalidArgumentError, match="is binary"):
        LARGE.generated()


def test_large_inputs_of_zeros_are_made_by_the_shell() -> None:
    line = curl(LARGE)
    text, _ = LARGE.body()
    assert "head -c 400 /dev/zero" in line
    assert f"Inference-Header-Content-Length: {len(text)}" in line
    assert line.endswith("--data-binary @-")


def test_bytes_that_are_no_zeros_are_written_in_base64() -> None:
    call = Call("m", tensors=[Tensor("X", "INT8", (2,), b"\1\2")])
    assert "echo AQI= | base64 -d" in curl(call)
    call = Call("m", tensors=[Tensor("X", "INT8", (1 << 17,), b"\1" * (1 << 17))])
    with pytest.raises(InvalidArgumentError, match="give --python"):
        curl(call)


TARGET = Target(
    "https://host:1",
    {"x-api-key": "s3cret", "triton-key": "s3cret", "$(1)`": "s3cret"},
    token_file="/t's",
    ca_cert="/ca.pem",
    client_cert="/c.pem",
    client_key="/k.pem",
)


def sent_headers(line: str, environ: Mapping[str, str]) -> list[str]:
    """Return those that a shell would have curl send."""
    shell = f"curl() {{ printf '%s\\n' \"$@\"; }}; {line}"
    done = subprocess.run(
        ["bash", "-c", shell], env={**environ, "PATH": os.environ["PATH"]}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    words = done.stdout.splitlines()
    return [words[at + 1] for at, word in enumerate(words) if word == "-H"]


def test_credentials_of_the_environment_go_along_as_variables() -> None:
    environ = {"MANTA_API_KEY": "s3cret", "MANTA_TOKEN": "t0ken"}
    line = curl(SMALL, environ=environ)
    assert "s3cret" not in line
    assert "t0ken" not in line
    assert sent_headers(line, environ)[:2] == ["X-API-Key: s3cret", "Authorization: Bearer t0ken"]
    address = parse_address("host:1")
    text = as_python(SMALL, address, Target("host:1"), environ)
    assert "'Authorization': 'Bearer ' + os.environ['MANTA_TOKEN']" in text
    # Files and headers go before them, as in a request.
    assert "MANTA" not in curl(SMALL, Target("host:1", api_key_file="/k"), environ)
    own = curl(SMALL, Target("host:1", {"x-api-key": "a", "authorization": "b"}), environ)
    assert "MANTA" not in own


def test_a_file_of_credentials_is_read_by_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "it's a key"
    path.write_text("s3cret\n")
    line = curl(SMALL, Target("host:1", api_key_file=str(path)))
    assert sent_headers(line, {})[0] == "X-API-Key: s3cret"


def test_a_header_has_the_name_that_was_given_whatever_a_shell_reads_in_it() -> None:
    environ = {"X_API_KEY": "a", "TRITON_KEY": "b", "__1__": "c"}
    target = replace(TARGET, token_file="")
    found = sent_headers(curl(SMALL, target), environ)
    assert found[:3] == ["x-api-key: a", "triton-key: b", "$(1)`: c"]


def test_certificates_and_headers_go_along_and_values_are_variables() -> None:
    line = curl(SMALL, TARGET)
    assert "--cacert /ca.pem --cert /c.pem --key /k.pem" in line
    assert '-H "x-api-key: $X_API_KEY" -H "triton-key: $TRITON_KEY"' in line
    text = as_python(SMALL, parse_address(TARGET.url), TARGET, {})
    assert "s3cret" not in line + text
    assert "'triton-key': os.environ['TRITON_KEY']" in text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unix:/run/m", "--unix-socket /run/m http://localhost/v2"),
        ("unix:@m", "--abstract-unix-socket m http://localhost/v2"),
        ("[::1]:8", "-g 'http://[::1]:8/v2"),
    ],
)
def test_sockets_and_addresses_are_told_curl(url: str, words: str) -> None:
    assert words in curl(SMALL, Target(url))


@pytest.mark.parametrize(
    ("call", "sources", "line"),
    [
        (SMALL, {}, "input0.set_data_from_numpy(np.array([1, 2], np.int32).reshape([1, 2]))"),
        (SMALL, {"X": "x.npy"}, "np.load('x.npy').astype(np.int32)"),
        (TEXT, {"T": "a.png"}, "np.array([open('a.png', 'rb').read()], np.object_)"),
        (LARGE, {}, "np.zeros([1, 100], np.float32)"),
    ],
)
def test_a_program_for_tritonclient_compiles(
    call: Call, sources: dict[str, str], line: str
) -> None:
    text = as_python(call, parse_address(TARGET.url), TARGET, {}, sources)
    compile(text, "call", "exec")
    assert line in text
    assert "InferenceServerClient('host:1', ssl=True)" in text


def test_version_parameters_and_id_are_in_every_form() -> None:
    call = Call("m", "2", SMALL.tensors, {"sequence_id": 7}, "r7")
    assert "/versions/2/infer" in curl(call)
    assert json.loads(call.body()[0])["parameters"] == {"sequence_id": 7}
    assert json.loads(call.body()[0])["id"] == "r7"
    assert call.generated() == {"id": "r7", "X": [1, 2], "parameters": {"sequence_id": 7}}
    text = as_python(call, parse_address("h:1"), Target("h:1"), {})
    assert "model_version='2', request_id='r7', parameters={'sequence_id': 7}" in text
