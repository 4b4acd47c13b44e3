# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A megabyte of any kind of part is answered, and costs no more than its size.

What the interpreter executes is counted. What runs in C counts as one, so where C code could
multiply without end, or compare all with all, `routing.test_work_of_checks` counts that.
"""

import asyncio
import gzip
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pytest

from deployments.http.kserve.servers import make_http_server
from deployments.http.server.connection import HttpConnection
from tests.support.http_plane import FakePlane, request
from tests.support.instruction_count import instructions
from tests.unit.deployments.http.server.test_head import Transport

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

MEGABYTE: Final = 1 << 20
# Counting makes all of it slower.
FEW: Final = 16_000
# Most that an error may say, of whatever a client has sent.
MESSAGE_BYTES: Final = 80_000
PARTS: Final[Mapping[str, Callable[[int], bytes]]] = {
    **{name: part.request for name, part in JSON_PARTS.items()},
    **OTHER_PARTS,
}


async def _answered(message: bytes) -> tuple[int, bytes]:
    """Return the status of the first answer, and what follows it."""
    connection, transport = _connected()
    _receive(connection, message)
    async with asyncio.timeout(30):
        # The server has nothing of its own to wait for here.
        while not transport.written:  # noqa: ASYNC110
            await asyncio.sleep(0)
    connection.connection_lost(None)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body


def _connected() -> tuple[HttpConnection, Transport]:
    connection, transport = HttpConnection(make_http_server(FakePlane())), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def _receive(connection: HttpConnection, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        buffer = connection.get_buffer(len(rest))
        size = min(len(rest), len(buffer), 1 << 16)
        buffer[:size] = rest[:size]
        connection.buffer_updated(size)
        rest = rest[size:]


@pytest.mark.parametrize("size", [500, 70_000, MEGABYTE])
@pytest.mark.parametrize("part", PARTS)
async def test_so_many_bytes_of_it_are_answered_and_no_fault(
    part: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    status, body = await _answered(PARTS[part](size))
    assert status == 200 or len(body) < MESSAGE_BYTES
    assert b"internal error" not in body
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("part", PARTS)
async def test_twice_as_much_of_it_takes_twice_the_instructions(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    once, twice = [await _instructions(PARTS[part](size)) for size in (FEW, 2 * FEW)]
    assert twice <= 2.2 * once + 2_000
    assert "Traceback" not in caplog.text


async def _instructions(message: bytes) -> int:
    connection, _ = _connected()
    count = instructions(lambda: _receive(connection, message))
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return count
