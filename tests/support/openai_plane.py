# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models with OpenAI routes on a data plane in memory, and what a client sees of them."""

import json
from typing import Any

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, InferenceResponse, ParameterValue, Tensor
from tests.support.http_plane import Client, FakePlane, Pending, Running, post

ROUTES = "chat/completions,completions,embeddings,rerank,score,responses,messages,tokenize"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EVENTS = "text/event-stream; charset=utf-8"
CHAT_BODY: dict[str, Any] = {"model": "llm", "messages": [{"role": "user", "content": "Hi"}]}
TEXT_BODY: dict[str, Any] = {**CHAT_BODY, "model": "words"}


def llm_config(name: str = "llm", routes: str = ROUTES) -> ModelConfig:
    return ModelConfig(
        name,
        backend="llm",
        input=(ModelInput("openai_request", "BYTES", (1,), optional=True),),
        output=(ModelOutput("openai_response", "BYTES", (1,)),),
        decoupled=True,
        parameters={"openai.routes": routes},
    )


def words_config(*more: ModelInput, max_batch_size: int = 0) -> ModelConfig:
    return ModelConfig(
        "words",
        backend="python",
        max_batch_size=max_batch_size,
        input=(ModelInput("text_input", "BYTES", (1,)), *more),
        output=(ModelOutput("text_output", "BYTES", (-1,)),),
        decoupled=True,
        parameters={"openai.schema": "text"},
    )


def openai_plane(words: ModelConfig | None = None) -> FakePlane:
    """Return a plane that holds requests for the models ``llm`` and ``words``."""
    plane = FakePlane()
    plane.is_holding = True
    plane.add(llm_config(), lambda _: [])
    plane.add(words or words_config(), lambda _: [])
    return plane


def element(request: InferenceRequest, name: str) -> bytes:
    """Return the one element of an input."""
    (tensor,) = [each for each in request.inputs if each.name == name]
    (found,) = deserialize_bytes(tensor.data)
    return found


def answer(
    pending: Pending,
    *texts: bytes | str,
    name: str = "openai_response",
    final: bool = False,
    **parameters: ParameterValue,
) -> None:
    """Have a model send a response of these elements; without any, one of parameters alone."""
    data = memoryview(serialize_bytes(list(texts)))
    outputs = [Tensor(name, "BYTES", (len(texts),), data)] if texts else []
    response = InferenceResponse("m", "1", "", outputs, dict(parameters))
    pending.sink.respond(response, final=final)


def end(pending: Pending) -> None:
    """Have a model end without a further response."""
    pending.sink.respond(None, final=True)


async def held(here: Running, path: str, body: Any) -> tuple[Client, Pending]:
    """Send a request, and return what the plane holds."""
    client = await here.connect()
    await client.send(post(path, body))
    await here.plane.wait_pending(1)
    return client, here.plane.pending[0]


async def streamed(client: Client) -> tuple[int, str, list[bytes]]:
    """Return status, content type and chunks of a streamed answer."""
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in head)}
    pieces = []
    while size := int((await client.reader.readuntil(b"\r\n")).strip(), 16):
        pieces.append(await client.reader.readexactly(size))
        await client.reader.readexactly(2)
    await client.reader.readexactly(2)
    return int(head[0].split(" ")[1]), headers["content-type"], pieces


def objects(pieces: list[bytes]) -> list[Any]:
    """Return the objects of unnamed events, without the last that says that it is done."""
    events = b"".join(pieces).split(b"\n\n")
    assert events[-2:] == [b"data: [DONE]", b""]
    return [json.loads(event.removeprefix(b"data: ")) for event in events[:-2]]
