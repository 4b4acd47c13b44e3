# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Streams of tensors over the ingress's own gRPC, whose model repeats the words of its prompt."""

import contextlib
import json

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import tensor_as_numpy
from deployments.grpc.kserve.service import GrpcService
from deployments.grpc.server.http2_server import Http2Server
from manta_tools.perf.genai.command import profile
from manta_tools.perf.genai.parsing import parse_profile
from tests.support.grpc_plane import FakePlane
from tests.support.memory_plane import FakeModel


def repeat_words(request, job):
    prompt = tensor_as_numpy(request.inputs[0])[0][0].decode()
    for word in prompt.split():
        job.respond(final=False, OUT=np.array([[f" {word}".encode()]], dtype=object))
    job.sink.respond(None, final=True)


class WordsPlane(FakePlane):
    def __init__(self, *inputs):
        message = model_config_pb2.ModelConfig(name="words", max_batch_size=8)
        message.model_transaction_policy.decoupled = True
        config = ModelConfig(
            name="words",
            max_batch_size=8,
            input=tuple(ModelInput(*each) for each in inputs),
            output=(ModelOutput("OUT", "BYTES", (1,)), ModelOutput("LOGPROBS", "FP32", (1,))),
            decoupled=True,
            message=message.SerializeToString(),
        )
        super().__init__(FakeModel(config, repeat_words))

    def model_metadata(self, name, version=""):
        outputs = [
            {"name": each.name, "datatype": each.datatype, "shape": [-1, *each.dims]}
            for each in self.resolve(name).config.output
        ]
        return {**super().model_metadata(name, version), "outputs": outputs}


@contextlib.asynccontextmanager
async def serving(*inputs):
    plane = WordsPlane(*inputs)
    server = Http2Server(GrpcService(plane))
    try:
        yield plane, await server.start("127.0.0.1", 0, reuse_port=False)
    finally:
        server.close()
        await server.wait_drained(5)


async def run(tmp_path, port, *arguments):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"text": "one two three"}\n{"text": "one two three four five"}')
    url = ("-u", f"127.0.0.1:{port}", "--artifact-dir", str(tmp_path / "artifacts"))
    names = ("--text-output-name", "OUT", "--input-file", str(prompts))
    options, passed = parse_profile(["-m", "words", *url, *names, *arguments])
    assert await profile(options, passed) == 0
    (directory,) = (tmp_path / "artifacts").iterdir()
    return directory, json.loads((directory / "profile_export_genai_perf.json").read_text())


def sent(job):
    return {each.name: tensor_as_numpy(each).tolist() for each in job.request.inputs}


async def test_each_response_of_a_decoupled_model_is_measured(tmp_path):
    async with serving(("PROMPT", "BYTES", (-1,)), ("stream", "BOOL", (1,))) as (plane, port):
        arguments = ("--text-input-name", "PROMPT", "--streaming", "--concurrency", "4")
        directory, found = await run(tmp_path, port, *arguments, "--request-count", "10")
    assert directory.name == "words-triton-tensorrtllm-concurrency4"
    assert found["request_count"]["avg"] == 10.0
    assert found["output_sequence_length"]["avg"] == found["input_sequence_length"]["avg"] == 4.0
    assert {"time_to_second_token", "inter_token_latency"} <= found.keys()
    # max_tokens and exclude_input_in_output are of other models; only the text is asked for.
    assert sent(plane.jobs[0]) == {"PROMPT": [[b"one two three"]], "stream": [[True]]}
    assert list(plane.jobs[0].request.outputs) == ["OUT"]
    rows = json.loads((directory / "profile_export.json").read_text())["experiments"][0]["requests"]
    texts = {"".join(each["OUT"] for each in row["response_outputs"]) for row in rows}
    assert texts == {" one two three", " one two three four five"}
    assert rows[0]["request_inputs"] == {"PROMPT": "one two three", "stream": True}
    assert json.loads((directory / "inputs.json").read_text())["data"][0] == {
        "PROMPT": ["one two three"],
        "stream": [True],
    }


async def test_vllms_limit_of_tokens_is_a_tensor(tmp_path):
    inputs = (("text_input", "BYTES", (1,)), ("sampling_parameters", "BYTES", (1,)))
    async with serving(*inputs) as (plane, port):
        await run(tmp_path, port, "--backend", "vllm", "--osl", "9")
    ((parameters,),) = sent(plane.jobs[0])["sampling_parameters"]
    assert json.loads(parameters) == {"max_tokens": "9"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--text-input-name", "X"), "model 'words' has no input 'X', only text_input"),
        (("--text-output-name", "X"), "model 'words' has no output 'X', only OUT, LOGPROBS"),
        (("--extra-inputs", "beam_width:2"), "model 'words' has no input 'beam_width'"),
    ],
)
async def test_tensors_that_the_model_does_not_have_are_refused(tmp_path, arguments, part):
    async with serving(("text_input", "BYTES", (1,))) as (_, port):
        with pytest.raises(InvalidArgumentError) as caught:
            await run(tmp_path, port, *arguments)
    assert part in caught.value.message
