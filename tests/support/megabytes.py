# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are large in one kind of part, over HTTP and over gRPC."""

import gzip
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from tests.support.http_plane import request

_INFER: Final = "/v2/models/id_fp32/infer"
_STRINGS: Final = "/v2/models/id_bytes/infer"
_GENERATE: Final = "/v2/models/id_bytes/generate"
_LOAD: Final = "/v2/repository/models/simple/load"
_REGION: Final = "/v2/systemsharedmemory/region/r/register"
_INPUT: Final = '{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[1]}'
_OTHER: Final = _INPUT.replace("INPUT0", "i@")
_ONE: Final = f'{{"inputs":[{_INPUT}]'
_SHAPE: Final = '{"inputs":[{"name":"INPUT0","shape":['
_SHAPE_END: Final = '],"datatype":"FP32","data":[]}]}'
_DATA: Final = '{"inputs":[{"name":"INPUT0","shape":[1,#],"datatype":"FP32","data":['
_TEXTS: Final = _DATA.replace("FP32", "BYTES")
_DATA_END: Final = "]}]}"


class Part(NamedTuple):
    """A document of which one part is repeated.

    Attributes:
        url: Where it is sent.
        before: What stands before the repetitions; their number for #.
        item: What is repeated; its number for @. A last comma is left out.
        after: What stands behind.
    """

    url: str
    before: str
    item: str
    after: str

    def request(self, size: int) -> bytes:
        """Return a request with so many bytes of repetitions."""
        count = size // (len(self.item) + 5 * self.item.count("@")) + 1
        if "@" in self.item:
            repeated = "".join(self.item.replace("@", f"{at:06}") for at in range(count))
        else:
            repeated = self.item * count
        repeated = repeated.removesuffix(",")
        body = self.before.replace("#", str(count)) + repeated + self.after
        return request("POST", self.url, body.encode("latin-1"))


JSON_PARTS: Final[Mapping[str, Part]] = {
    "dims": Part(_INFER, _SHAPE, "1,", _SHAPE_END),
    "dims whose product is huge": Part(_INFER, _SHAPE, f"{2**62},", _SHAPE_END),
    "dims of 2": Part(_INFER, _SHAPE, "2,", _SHAPE_END),
    "dims of 0": Part(_INFER, _SHAPE, "0,", _SHAPE_END),
    "negative dims": Part(_INFER, _SHAPE, "-1,", _SHAPE_END),
    "inputs": Part(_INFER, '{"inputs":[', f"{_OTHER},", "]}"),
    "inputs of one name": Part(_INFER, '{"inputs":[', f"{_INPUT},", "]}"),
    "inputs of nothing": Part(_INFER, '{"inputs":[', "{},", "]}"),
    "outputs": Part(_INFER, f'{_ONE},"outputs":[', '{"name":"o@"},', "]}"),
    "outputs of one name": Part(_INFER, f'{_ONE},"outputs":[', '{"name":"OUTPUT0"},', "]}"),
    "parameters": Part(_INFER, f'{_ONE},"parameters":{{', '"p@":1,', "}}"),
    "one parameter": Part(_INFER, f'{_ONE},"parameters":{{', '"p":1,', "}}"),
    "parameters of an input": Part(_INFER, f'{_ONE[:-2]},"parameters":{{', '"p@":1,', "}}]}"),
    "parameters of an output": Part(
        _INFER, f'{_ONE},"outputs":[{{"name":"OUTPUT0","parameters":{{', '"p@":1,', "}}]}"
    ),
    "an object for a parameter": Part(_INFER, f'{_ONE},"parameters":{{"p":{{', '"p@":1,', "}}}"),
    "name of a parameter": Part(_INFER, f'{_ONE},"parameters":{{"', "p", '":1}}'),
    "digits of a parameter": Part(_INFER, f'{_ONE},"parameters":{{"p":', "9", "}}"),
    "id": Part(_INFER, f'{_ONE},"id":"', "i", '"}'),
    "id of escapes": Part(_INFER, f'{_ONE},"id":"', r"\n", '"}'),
    "id of surrogates": Part(_INFER, f'{_ONE},"id":"', r"\ud83d", '"}'),
    "id that is no text": Part(_INFER, f'{_ONE},"id":"', "\xff", '"}'),
    "name": Part(_INFER, '{"inputs":[{"name":"', "x", _INPUT[15:] + "]}"),
    "datatype": Part(_INFER, _SHAPE + '1],"datatype":"', "x", '","data":[1]}]}'),
    "numbers": Part(_INFER, _DATA, "1.5,", _DATA_END),
    "numbers of another shape": Part(_INFER, _DATA.replace("#", "1"), "1,", _DATA_END),
    "lists without end": Part(_INFER, _DATA, "[", ""),
    "nested lists": Part(_INFER, _DATA, "[" * 90 + "1" + "]" * 90 + ",", _DATA_END),
    "empty lists": Part(_INFER, _DATA, "[],", _DATA_END),
    "objects for numbers": Part(_INFER, _DATA, "{},", _DATA_END),
    "digits of an integer": Part(_INFER, _DATA, "9", _DATA_END),
    "digits of a fraction": Part(_INFER, _DATA.replace("#", "1") + "0.", "9", _DATA_END),
    "digits of an exponent": Part(_INFER, _DATA + "1e", "9", _DATA_END),
    "strings": Part(_STRINGS, _TEXTS, '"s",', _DATA_END),
    "a string": Part(_STRINGS, _TEXTS.replace("#", "1") + '"', "s", '"' + _DATA_END),
    "escapes of a string": Part(
        _STRINGS, _TEXTS.replace("#", "1") + '"', r"\u00e9", '"' + _DATA_END
    ),
    "surrogates of a string": Part(_STRINGS, _TEXTS + '"', r"\ud83d", '"' + _DATA_END),
    "strings and numbers": Part(_STRINGS, _TEXTS, '"s",1,', _DATA_END),
    "unknown members": Part(_INFER, "{", '"u@":1,', "}"),
    "a member again and again": Part(_INFER, "{", '"inputs":[],', "}"),
    "space": Part(_INFER, "", " ", _ONE + "}"),
    "no JSON": Part(_INFER, "", "x", ""),
    "quotes": Part(_INFER, "", '"', ""),
    "objects without end": Part(_INFER, "", '{"a":', ""),
    "generate: members": Part(_GENERATE, "{", '"u@":1,', "}"),
    "generate: one member": Part(_GENERATE, "{", '"INPUT0":"a",', "}"),
    "generate: a string": Part(_GENERATE, '{"INPUT0":"', "s", '"}'),
    "generate: strings": Part(_GENERATE, '{"INPUT0":[', '"s",', "]}"),
    "generate: nesting": Part(_GENERATE, '{"INPUT0":', "[", ""),
    "generate: parameters": Part(_GENERATE, '{"INPUT0":"s","parameters":{', '"p@":1,', "}}"),
    "generate_stream: members": Part(f"{_GENERATE}_stream", "{", '"u@":1,', "}"),
    "load: parameters": Part(_LOAD, '{"parameters":{', '"p@":"1",', "}}"),
    "load: files": Part(_LOAD, '{"parameters":{', '"file:@":"QUJD",', "}}"),
    "load: a file": Part(_LOAD, '{"parameters":{"file:1/m":"', "QUJD", '"}}'),
    "load: a config": Part(_LOAD, '{"parameters":{"config":"', "{", '"}}'),
    "load: nesting": Part(_LOAD, "", '{"parameters":', ""),
    "index: members": Part("/v2/repository/index", "{", '"p@":1,', "}"),
    "trace: settings": Part("/v2/trace/setting", "{", '"p@":"1",', "}"),
    "trace: levels": Part("/v2/trace/setting", '{"trace_level":[', '"TIMESTAMPS",', "]}"),
    "trace: digits": Part("/v2/trace/setting", '{"trace_rate":"', "9", '"}'),
    "log: settings": Part("/v2/logging", "{", '"p@":1,', "}"),
    "log: a format": Part("/v2/logging", '{"log_format":"', "x", '"}'),
    "region: a key": Part(_REGION, '{"offset":0,"byte_size":8,"key":"', "x", '"}'),
    "region: digits": Part(_REGION, '{"key":"x","byte_size":8,"offset":', "9", "}"),
}


def _raw(shape: int, item: bytes, size: int, end: bytes = b"") -> bytes:
    data = item * (size // len(item)) + end
    head = (
        f'{{"inputs":[{{"name":"INPUT0","shape":[1,{shape}],"datatype":"BYTES",'
        f'"parameters":{{"binary_data_size":{len(data)}}}}}]}}'
    )
    length = f"Inference-Header-Content-Length: {len(head)}"
    return request("POST", _STRINGS, head.encode() + data, (length,))


def _chunked(size: int, chunk_bytes: int) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (chunk_bytes, b" " * chunk_bytes)
    head = request("POST", _INFER, headers=("Transfer-Encoding: chunked",))
    return head + chunk * (size // len(chunk)) + b"0\r\n\r\n"


# What is large but no part of a document.
OTHER_PARTS: Final[Mapping[str, Callable[[int], bytes]]] = {
    "raw strings": lambda size: _raw(size // 5, b"\1\0\0\0s", size),
    "raw empty strings": lambda size: _raw(size // 4, bytes(4), size),
    "raw strings of two lengths": lambda size: _raw(size // 9 * 2, b"\1\0\0\0s\0\0\0\0", size),
    "raw strings, one cut": lambda size: _raw(size // 5, b"\1\0\0\0s", size, b"\1"),
    "raw strings of another number": lambda size: _raw(1, b"\1\0\0\0s", size),
    "chunks": lambda size: _chunked(size, 20),
    "compressed": lambda size: request(
        "POST",
        _INFER,
        gzip.compress(JSON_PARTS["numbers"].request(size).partition(b"\r\n\r\n")[2]),
        ("Content-Encoding: gzip",),
    ),
    "empty lines": lambda size: b"\r\n" * (size // 2) + request("GET", "/v2/health/live"),
    "headers": lambda size: request(
        "GET", "/v2/health/live", headers=tuple(f"X{at}: a" for at in range(size // 10))
    ),
    "URL": lambda size: request("GET", "/v2/models/" + "a" * size),
}


def _asked(count: int = 0, **changes: Any) -> pb.ModelInferRequest:
    """Return a request for ``held``; ``count`` is of what a change makes of a number."""
    tensor = changes.pop("tensor", {})
    tensor = {"name": "IN", "datatype": "INT32", "shape": [1], **tensor}
    made = {key: list(map(make, range(count))) for key, make in changes.items() if callable(make)}
    fields = {"model_name": "held", "raw_input_contents": [bytes(4)], **changes, **made}
    fields["inputs"] = [tensor, *fields.get("inputs", ())]
    return pb.ModelInferRequest(**fields)


def _values(count: int) -> dict[str, pb.InferParameter]:
    return {f"p{at}": pb.InferParameter(int64_param=1) for at in range(count)}


def _explicit(kind: str, **contents: Any) -> pb.ModelInferRequest:
    return _asked(tensor={"datatype": kind, "contents": contents}, raw_input_contents=[])


# RPC, and its request by the size of the part that is large.
MESSAGES: Final[Mapping[str, tuple[str, Callable[[int], Message]]]] = {
    name: ("ModelInfer", make)
    for name, make in {
        "dims": lambda size: _asked(tensor={"shape": [1] * size}),
        "dims whose product is huge": lambda size: _asked(tensor={"shape": [2**62] * (size // 9)}),
        "negative dims": lambda size: _asked(tensor={"shape": [-1] * (size // 10)}),
        "inputs": lambda size: _asked(size // 12, inputs=lambda at: {"name": f"i{at}"}),
        "inputs of one name": lambda size: _asked(size // 6, inputs=lambda at: {"name": "IN"}),
        "inputs of nothing": lambda size: _asked(size // 2, inputs=lambda at: {}),
        "outputs": lambda size: _asked(size // 12, outputs=lambda at: {"name": f"o{at}"}),
        "outputs of one name": lambda size: _asked(size // 7, outputs=lambda at: {"name": "OUT"}),
        "outputs of nothing": lambda size: _asked(size // 2, outputs=lambda at: {}),
        "raw contents": lambda size: _asked(size // 2, raw_input_contents=lambda at: b""),
        "parameters": lambda size: _asked(parameters=_values(size // 16)),
        "parameters of an input": lambda size: _asked(tensor={"parameters": _values(size // 16)}),
        "parameters of an output": lambda size: _asked(
            outputs=[{"name": "OUT", "parameters": _values(size // 16)}]
        ),
        "a parameter": lambda size: _asked(
            parameters={"p": pb.InferParameter(string_param="x" * size)}
        ),
        "name of a parameter": lambda size: _asked(
            parameters={"p" * size: pb.InferParameter(bool_param=True)}
        ),
        "id": lambda size: _asked(id="i" * size),
        "model": lambda size: _asked(model_name="m" * size),
        "version": lambda size: _asked(model_version="1" * size),
        "name": lambda size: _asked(tensor={"name": "x" * size}),
        "datatype": lambda size: _asked(tensor={"datatype": "x" * size}),
        "integers": lambda size: _explicit("INT32", int_contents=[1] * size),
        "long integers": lambda size: _explicit("INT64", int64_contents=[-1] * (size // 10)),
        "booleans": lambda size: _explicit("BOOL", bool_contents=[True] * size),
        "floats": lambda size: _explicit("FP32", fp32_contents=[1.5] * (size // 4)),
        "strings": lambda size: _explicit("BYTES", bytes_contents=[b"s"] * (size // 3)),
        "contents twice": lambda size: _asked(tensor={"contents": {"int_contents": [1] * size}}),
    }.items()
} | {
    "load: parameters": (
        "RepositoryModelLoad",
        lambda size: pb.RepositoryModelLoadRequest(
            model_name="simple",
            parameters={
                f"file:{at}": pb.ModelRepositoryParameter(bytes_param=b"f")
                for at in range(size // 20)
            },
        ),
    ),
    "load: a config": (
        "RepositoryModelLoad",
        lambda size: pb.RepositoryModelLoadRequest(
            model_name="simple",
            parameters={"config": pb.ModelRepositoryParameter(string_param="{" * size)},
        ),
    ),
    "index: a repository": (
        "RepositoryIndex",
        lambda size: pb.RepositoryIndexRequest(repository_name="r" * size),
    ),
    "trace: settings": (
        "TraceSetting",
        lambda size: pb.TraceSettingRequest(
            settings={
                f"p{at}": pb.TraceSettingRequest.SettingValue(value=["1"])
                for at in range(size // 16)
            }
        ),
    ),
    "trace: digits": (
        "TraceSetting",
        lambda size: pb.TraceSettingRequest(
            settings={"trace_rate": pb.TraceSettingRequest.SettingValue(value=["9" * size])}
        ),
    ),
    "log: settings": (
        "LogSettings",
        lambda size: pb.LogSettingsRequest(
            settings={
                f"p{at}": pb.LogSettingsRequest.SettingValue(uint32_param=1)
                for at in range(size // 16)
            }
        ),
    ),
    "statistics: a version": (
        "ModelStatistics",
        lambda size: pb.ModelStatisticsRequest(name="simple", version="9" * size),
    ),
    "region: a name": (
        "SystemSharedMemoryRegister",
        lambda size: pb.SystemSharedMemoryRegisterRequest(name="r" * size, key="k", byte_size=4),
    ),
}
