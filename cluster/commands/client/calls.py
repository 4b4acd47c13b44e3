# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inference requests: as they are sent, and as curl and Python would send them.

Values of headers are never written out: a call that is shown takes them from the environment or
from their files.
"""

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.address import Address
from cluster.commands.client.connection import model_path
from cluster.commands.client.contexts import API_KEY, KEY_HEADER, TOKEN, Target
from cluster.commands.client.tensors import BYTES, Tensor

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
_BINARY: Final = "application/octet-stream"
_JSON: Final = "application/json"
_MOST_TYPED_BYTES: Final = 64 << 10
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_VARIABLE: Final = re.compile(r"^(?=\d)|[^A-Z0-9_]")
_NUMPY_NAMES: Final[Mapping[str, str]] = {
    "BOOL": "bool_",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    # tritonclient cuts it itself.
    "BF16": "float32",
    BYTES: "object_",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A request for inference.

    Attributes:
        version: Its version; empty for the one that the server chooses.
        id: Its own, which the answer has again; empty for none.
    """

    model: str
    version: str = ""
    tensors: Sequence[Tensor] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def path(self, action: str) -> str:
        """Return the path of an action: infer or generate_stream."""
        return f"{model_path(self.model, self.version)}/{action}"

    def body(self, parameters: Mapping[str, Any] | None = None) -> tuple[str, bytes]:
        """Return the JSON of an infer request, and the bytes behind it."""
        encoded = [each.encoded() for each in self.tensors]
        document: dict[str, Any] = {"id": self.id} if self.id else {}
        document["inputs"] = [row for row, _ in encoded]
        merged = {**self.parameters, **(parameters or {})}
        if merged:
            document["parameters"] = merged
        return json.dumps(document), b"".join(data for _, data in encoded)

    def generated(self) -> dict[str, Any]:
        """Return the document of a generate request.

        Raises:
            InvalidArgumentError: An input cannot be had in it.
        """
        document: dict[str, Any] = {"id": self.id} if self.id else {}
        for each in self.tensors:
            if not isinstance(each.data, list) or each.encoded()[1]:
                raise InvalidArgumentError(
                    f"input '{each.name}' is binary, which streams over HTTP do not take; give"
                    " --grpc HOST:PORT"
                )
            document[each.name] = each.data[0] if len(each.data) == 1 else each.data
        return document | ({"parameters": dict(self.parameters)} if self.parameters else {})


def as_curl(
    call: Call,
    address: Address,
    target: Target,
    environ: Mapping[str, str],
    *,
    is_stream: bool = False,
) -> str:
    """Return a line of a shell that makes the call with curl, for a stream response by response.

    Raises:
        InvalidArgumentError: It has too many bytes for a command line.
    """
    words = ["curl", "-sN" if is_stream else "-s", *_curl_connection(address, target)]
    words.append(shlex.quote(address.base + call.path("generate_stream" if is_stream else "infer")))
    words += [f"-H {each}" for each in _curl_headers(target, environ)]
    text, binary = (json.dumps(call.generated()), b"") if is_stream else call.body()
    if not binary:
        return " ".join([*words, f"-H 'Content-Type: {_JSON}'", "-d", shlex.quote(text)])
    if any(binary) and len(binary) > _MOST_TYPED_BYTES:
        raise InvalidArgumentError(
            f"the inputs have {len(binary)} bytes, too many for a command line; give --python"
        )
    source = f"head -c {len(binary)} /dev/zero"
    if any(binary):
        source = f"echo {base64.b64encode(binary).decode()} | base64 -d"
    words += [f"-H 'Content-Type: {_BINARY}'", f"-H '{HEADER_LENGTH}: {len(text.encode())}'"]
    whole = " ".join([*words, "--data-binary @-"])
    return f"{{ printf %s {shlex.quote(text)}; {source}; }} | {whole}"


def _curl_connection(address: Address, target: Target) -> list[str]:
    words = ["-g"] if "[" in address.base else []
    if address.socket.startswith("\0"):
        words += ["--abstract-unix-socket", shlex.quote(address.socket[1:])]
    elif address.socket:
        words += ["--unix-socket", shlex.quote(address.socket)]
    options = (
        ("--cacert", target.ca_cert),
        ("--cert", target.client_cert),
        ("--key", target.client_key),
    )
    for option, value in options if address.is_encrypted else ():
        words += [option, shlex.quote(value)] if value else []
    return words


def _curl_headers(target: Target, environ: Mapping[str, str]) -> list[str]:
    words = []
    for each in _headers(target, environ):
        value = f"$(cat {shlex.quote(each.path)})" if each.path else f"${each.variable}"
        # Names may have what a shell reads, too.
        name = each.name if _PLAIN.fullmatch(each.name) else ""
        before = "" if name else shlex.quote(f"{each.name}: ")
        words.append(f'{before}"{f"{name}: " if name else ""}{each.prefix}{value}"')
    return words


@dataclass(frozen=True, slots=True)
class _Header:
    """A header whose value is not written out.

    Attributes:
        variable: Of the environment, which has the value.
        prefix: What is before it.
        path: File that has the value in the variable's place; empty for none.
    """

    name: str
    variable: str
    prefix: str = ""
    path: str = ""


def _headers(target: Target, environ: Mapping[str, str]) -> list[_Header]:
    """Return the headers that go along, of which any may be a secret."""
    found = [_Header(name, _NO_VARIABLE.sub("_", name.upper())) for name in target.headers]
    given = {name.lower() for name in target.headers}
    has_files = bool(target.api_key_file or target.token_file)
    for each in (
        _Header(KEY_HEADER, API_KEY, path=target.api_key_file),
        _Header("Authorization", TOKEN, "Bearer ", target.token_file),
    ):
        is_in_environment = not has_files and bool(environ.get(each.variable, "").strip())
        if each.name.lower() not in given and (each.path or is_in_environment):
            found.append(each)
    return found


def as_python(
    call: Call,
    address: Address,
    target: Target,
    environ: Mapping[str, str],
    sources: Mapping[str, str] | None = None,
) -> str:
    """Return a program that makes the call with tritonclient; sources are files, by input."""
    headers = _headers(target, environ)
    lines = ["# pip install tritonclient[http]"]
    lines += ["import os", ""] if any(not each.path for each in headers) else []
    lines += ["import numpy as np", "import tritonclient.http as triton", ""]
    host = address.base.partition("://")[2]
    tls = ", ssl=True" if address.is_encrypted else ""
    lines.append(f"server = triton.InferenceServerClient({host!r}{tls})")
    for number, each in enumerate(call.tensors):
        value = _numpy_value(each, (sources or {}).get(each.name, ""))
        lines += [
            f"input{number} = triton.InferInput({each.name!r}, {list(each.shape)}, "
            f"{each.datatype!r})",
            f"input{number}.set_data_from_numpy({value}.reshape({list(each.shape)}))",
        ]
    names = ", ".join(f"input{number}" for number in range(len(call.tensors)))
    arguments = [repr(call.model), f"[{names}]"]
    if call.version:
        arguments.append(f"model_version={call.version!r}")
    if call.id:
        arguments.append(f"request_id={call.id!r}")
    if call.parameters:
        arguments.append(f"parameters={dict(call.parameters)!r}")
    if headers:
        rows = [f"{each.name!r}: {_python_value(each)}" for each in headers]
        arguments.append(f"headers={{{', '.join(rows)}}}")
    lines += [
        f"answer = server.infer({', '.join(arguments)})",
        'for output in answer.get_response()["outputs"]:',
        '    print(output["name"], answer.as_numpy(output["name"]))',
    ]
    return "\n".join(lines)


def _python_value(header: _Header) -> str:
    value = f"os.environ[{header.variable!r}]"
    if header.path:
        value = f"open({header.path!r}).read().strip()"
    return f"{header.prefix!r} + {value}" if header.prefix else value


def _numpy_value(tensor: Tensor, source: str) -> str:
    dtype = f"np.{_NUMPY_NAMES.get(tensor.datatype, tensor.datatype.lower())}"
    if source.endswith(".npy"):
        return f"np.load({source!r}).astype({dtype})"
    if isinstance(tensor.data, bytes):
        note = f"the values of {source}" if source else "your values"
        return f"np.zeros({list(tensor.shape)}, {dtype})  # {note}\n"
    if source and tensor.datatype == BYTES and len(tensor.data) == 1:
        return f"np.array([open({source!r}, 'rb').read()], {dtype})"
    return f"np.array({tensor.data!r}, {dtype})"
