# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta infer``: one request for inference, or the call that would make it."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from backends.api.errors import (
    InvalidArgumentError,
    TritonError,
    UnknownError,
    UnsupportedError,
)
from cluster.commands.client.address import parse_address
from cluster.commands.client.calls import HEADER_LENGTH, Call, as_curl, as_python
from cluster.commands.client.command_line import (
    Parser,
    UsageError,
    command,
    connect,
    print_json,
    target_of,
)
from cluster.commands.client.connection import LONG_TIMEOUT_S, Answer, Server
from cluster.commands.client.models import described
from cluster.commands.client.tensors import BYTES, assigned, read_tensor, unpack

_DESCRIPTION: Final = """Run a model on values from the command line. An input is NAME=VALUE; the
name may be left out where there is one. VALUE: numbers (1,2,3), JSON ([[1,2],[3,4]]), true/false, a
text, @FILE (.npy, .json, an image, a text), or - for standard input."""
_SHOWN: Final = 16
_DECOUPLED: Final = "decoupled transaction policy"
_EVENT: Final = "data:"

Row = dict[str, Any]


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("model")
    parser.add_argument("input", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--version", default="", metavar="N", help="version of the model")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME:N,M", help="shape of an input"
    )
    parser.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the request, as sequence_id=7",
    )
    parser.add_argument("--id", default="", help="of the request, which logs and traces have")
    parser.add_argument("--stream", action="store_true", help="print responses as they come")
    parser.add_argument(
        "--grpc",
        default="",
        metavar="HOST:PORT",
        help="stream over gRPC, which takes every datatype; its port is 8001 by default",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--curl", action="store_true", help="print the call for curl instead")
    shown.add_argument("--python", action="store_true", help="print it for tritonclient instead")


@command("infer", _DESCRIPTION, _add_arguments)
def main(given: argparse.Namespace) -> None:
    """Run ``manta infer``."""
    server = connect(given)
    about = described(server, given.model, given.version)
    texts = assigned(given.input, about["inputs"])
    shapes = dict(_shape(each, about["inputs"]) for each in given.shape)
    tensors = [
        read_tensor(each, texts[each["name"]], shapes.get(each["name"]))
        for each in about["inputs"]
        if each["name"] in texts
    ]
    if about["inputs"] and not tensors:
        raise UsageError(f"model '{given.model}' takes {_wanted(about['inputs'])}.")
    parameters = dict(map(_parameter, given.parameter))
    call = Call(given.model, given.version, tensors, parameters, given.id)
    if given.curl or given.python:
        if given.grpc:
            raise UsageError("--grpc cannot be shown as a call; leave --curl and --python out.")
        target = target_of(given)
        address = parse_address(target.url)
        if given.curl:
            print(as_curl(call, address, target, os.environ, is_stream=given.stream))
        else:
            files = {name: text[1:] for name, text in texts.items() if text.startswith("@")}
            print(as_python(call, address, target, os.environ, files))
    elif given.grpc:
        _print_grpc(server, call, given)
    elif given.stream:
        for response in _streamed(server, call):
            print(_line(response) if not given.json else json.dumps(response), flush=True)
    else:
        _print(_asked(server, call), is_json=given.json)


def _asked(server: Server, call: Call) -> Row:
    text, binary = call.body({"binary_data_output": True})
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(text.encode()))}
    body = text.encode() + binary
    try:
        answer = server.ask("POST", call.path("infer"), body, headers, LONG_TIMEOUT_S)
    except TritonError as error:
        if _DECOUPLED not in error.message:
            raise
        raise UnsupportedError(f"model '{call.model}' is decoupled; give --stream") from None
    return decoded(answer)


def decoded(answer: Answer) -> Row:
    """Return an answer to an infer request with the values of all outputs.

    Raises:
        UnknownError: It is no such answer.
    """
    length = int(answer.headers.get(HEADER_LENGTH.lower(), len(answer.body)))
    document: Row = Answer(answer.body[:length], answer.headers).json()
    at, outputs = length, []
    for row in document.get("outputs", ()):
        size = row.get("parameters", {}).get("binary_data_size")
        data = row.get("data", [])
        if size is not None:
            data, at = unpack(answer.body[at : at + size], row["datatype"]), at + size
        shown = {name: row[name] for name in ("name", "datatype", "shape")}
        outputs.append({**shown, "data": data})
    return {**document, "outputs": outputs}


def _streamed(server: Server, call: Call) -> Any:
    """Yield the responses of a stream."""
    for line in server.lines(call.path("generate_stream"), call.generated()):
        if not line.startswith(_EVENT):
            continue
        response = json.loads(line.removeprefix(_EVENT))
        if "error" in response:
            raise UnknownError(str(response["error"]))
        yield response


def _print_grpc(server: Server, call: Call, given: argparse.Namespace) -> None:
    from cluster.commands.client import grpc_stream  # noqa: PLC0415 - it imports gRPC

    target, is_encrypted = target_of(given), server.address.is_encrypted
    for response in grpc_stream.responses(
        call, given.grpc, target, server.headers, is_encrypted=is_encrypted
    ):
        if given.json:
            # A line each, as programs read what comes bit by bit.
            print(json.dumps(_plain_values(response)))
        else:
            _print_outputs(response)
        sys.stdout.flush()


def _line(response: Mapping[str, Any]) -> str:
    values = {
        name: value
        for name, value in response.items()
        if name not in ("model_name", "model_version", "id", "parameters")
    }
    if len(values) == 1:
        (value,) = values.values()
        return value if isinstance(value, str) else json.dumps(value)
    return "  ".join(f"{name}={json.dumps(value)}" for name, value in values.items())


def _print(answer: Row, *, is_json: bool) -> None:
    if is_json:
        print_json(_plain_values(answer))
    else:
        _print_outputs(answer)


def _plain_values(answer: Row) -> Row:
    rows = [{**row, "data": list(map(_plain, row["data"]))} for row in answer["outputs"]]
    return {**answer, "outputs": rows}


def _print_outputs(answer: Row) -> None:
    for row in answer["outputs"]:
        shape = ",".join(map(str, row["shape"]))
        print(f"{row['name']} {row['datatype']}[{shape}]: {_values(row['data'], row['datatype'])}")


def _values(data: Sequence[Any], datatype: str) -> str:
    if datatype == BYTES and len(data) == 1:
        return str(_plain(data[0]))
    shown = [f"{each:.6g}" if isinstance(each, float) else str(_plain(each)) for each in data]
    more = f" ... ({len(data)} values)" if len(data) > _SHOWN else ""
    return " ".join(shown[:_SHOWN]) + more


def _plain(value: object) -> object:
    return repr(value) if isinstance(value, bytes) else value


def _wanted(inputs: Sequence[Row]) -> str:
    return " ".join(
        f"{each['name']}={each['datatype']}[{','.join(map(str, each['shape']))}]" for each in inputs
    )


def _shape(text: str, inputs: Sequence[Row]) -> tuple[str, list[int]]:
    name, colon, sizes = text.rpartition(":")
    try:
        shape = [int(each) for each in sizes.split(",")]
    except ValueError:
        shape = []
    if not colon and len(inputs) == 1:
        name, colon = inputs[0]["name"], ":"
    if not colon or not shape or min(shape) < 0:
        raise UsageError(f"--shape {text}: expected NAME:N,M.")
    if all(each["name"] != name for each in inputs):
        raise InvalidArgumentError(f"--shape: the model has no input '{name}'")
    return name, shape


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--parameter {text}: expected NAME=VALUE.")
    try:
        found = json.loads(value)
    except ValueError:
        found = value
    return name, found if isinstance(found, bool | int | float) else value
