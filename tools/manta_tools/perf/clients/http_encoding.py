# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inference requests as HTTP/1.1 has them, and the look at their answers."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import numpy as np

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.datatypes import numpy_dtype
from manta_tools.perf.clients.payload import Form, Payload, Places, sequence_parameters
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.rows import Content, Row
from manta_tools.perf.data.sequences import SequencePart

_HEADER_LENGTH = "inference-header-content-length"


def encode_http(
    form: Form, host: str, row: Row, places: Places, part: SequencePart | None
) -> Payload:
    """Encode a request.

    Args:
        form: How.
        host: Host and port, for the head.
        row: Its data.
        places: Where its tensors lie.
        part: Where in a sequence it stands.
    """
    header: dict[str, Any] = {"inputs": [], "outputs": []}
    raws: list[bytes] = []
    for name, content in row.inputs.items():
        header["inputs"].append(_input(form, name, content, places, raws))
    for tensor in form.model.outputs:
        output: dict[str, Any] = {"name": tensor.name}
        if tensor.name in places.outputs:
            output["parameters"] = places.outputs[tensor.name].parameters()
        else:
            output["parameters"] = {"binary_data": not form.is_json_output}
        header["outputs"].append(output)
    if parameters := sequence_parameters(part):
        header["parameters"] = parameters
    text = json.dumps(header, separators=(",", ":")).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if raws else {}
    if not raws:
        headers["Content-Type"] = "application/json"
    headers.update(form.headers)
    path = f"{model_path(form.model)}/infer"
    return Payload(
        request_bytes("POST", path, host, b"".join((text, *raws)), headers), row.expected
    )


def model_path(model: Model) -> str:
    """Return the path of a model's endpoints."""
    version = f"/versions/{model.version}" if model.version else ""
    return f"/v2/models/{quote(model.name, safe='')}{version}"


def request_bytes(
    method: str, path: str, host: str, body: bytes, headers: Mapping[str, str]
) -> bytes:
    """Return a request of HTTP/1.1."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def _input(
    form: Form, name: str, content: Content, places: Places, raws: list[bytes]
) -> dict[str, Any]:
    tensor: dict[str, Any] = {
        "name": name,
        "shape": list(content.shape),
        "datatype": content.datatype,
    }
    if name in places.inputs:
        tensor["parameters"] = places.inputs[name].parameters()
    elif form.is_json_input:
        tensor["data"] = _values(content)
    else:
        tensor["parameters"] = {"binary_data_size": len(content.raw)}
        raws.append(content.raw)
    return tensor


def _values(content: Content) -> list[Any]:
    if content.datatype == "BYTES":
        return [each.decode() for each in deserialize_bytes(memoryview(content.raw))]
    array = np.frombuffer(content.raw, numpy_dtype(content.datatype))
    if content.datatype == "BF16":
        array = array.astype(np.float32)
    found: list[Any] = array.tolist()
    return found


def mismatch_http(expected: Mapping[str, bytes], head: bytes, body: bytes) -> str:
    """Return what of an answer is not as it has to be; empty when all is.

    Args:
        expected: Bytes of outputs, by name.
        head: The answer's head.
        body: The answer's body.
    """
    try:
        outputs = _outputs(head, body)
    except (ValueError, KeyError, TypeError) as error:
        return f"the answer cannot be read: {error}"
    return mismatch(expected, outputs)


def mismatch(expected: Mapping[str, bytes], outputs: Mapping[str, bytes]) -> str:
    """Return which output is not as it has to be; empty when all are.

    Triton: perf_analyzer/src/infer_context.cc ValidateOutputs @263c5f6
    """
    for name, wanted in expected.items():
        if name not in outputs:
            return f"Output doesn't match expected output: '{name}' is missing"
        if outputs[name] != wanted:
            return (
                f"Output doesn't match expected output: '{name}' has {len(outputs[name])} bytes, "
                f"expected {len(wanted)}"
                + (" of other contents" if len(outputs[name]) == len(wanted) else "")
            )
    return ""


def _outputs(head: bytes, body: bytes) -> dict[str, bytes]:
    length = len(body)
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == _HEADER_LENGTH:
            length = int(value)
    offset = length
    found = {}
    for output in json.loads(body[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            found[output["name"]] = _of_values(output)
        else:
            found[output["name"]] = body[offset : offset + size]
            offset += size
    return found


def _of_values(output: Mapping[str, Any]) -> bytes:
    if output["datatype"] == "BYTES":
        return serialize_bytes(np.array(output["data"], dtype=object).reshape(-1))
    return np.array(output["data"]).astype(numpy_dtype(output["datatype"])).tobytes()
