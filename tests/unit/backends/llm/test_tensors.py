# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.request import tensor_as_numpy
from backends.llm.tensors import answer_tensors
from tests.support.recording import recorded
from tests.support.scripted_engine import ScriptedEngine


def asked(text="Hi ", parameters=None, **inputs):
    given = {"text_input": np.array([text.encode()], object)}
    for name, value in inputs.items():
        given[name] = np.array([value], bool if isinstance(value, bool) else object)
    return recorded(given, parameters=parameters or {}, id="7")


def answered(request, *texts):
    engine = ScriptedEngine(*(texts or ("you all",)))
    answer_tensors(engine, request, "m", "1")
    return engine


def pieces(request):
    return [tensor_as_numpy(answer.outputs[0])[0].decode() for answer in request.answers]


def test_the_prompt_is_part_of_the_text_unless_it_is_excluded():
    whole, excluded = asked(), asked(exclude_input_in_output=True)
    answered(whole), answered(excluded)
    assert whole.arrays()["text_output"].tolist() == [b"Hi you all"]
    assert excluded.arrays()["text_output"].tolist() == [b"you all"]
    assert whole.response.id == "7"


def test_a_stream_has_a_response_for_each_step_without_the_prompt():
    request = asked(stream=True)
    answered(request)
    assert request.is_done
    assert pieces(request) == ["you", " al", "l"]


def test_a_stream_with_the_prompt_is_refused_in_the_words_of_triton():
    with pytest.raises(InvalidArgumentError) as raised:
        answered(asked(stream=True, exclude_input_in_output=False))
    assert raised.value.message.startswith(
        "Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed."
    )


def test_outputs_are_given_that_are_asked_for():
    request = asked(
        return_finish_reason=True,
        return_cumulative_logprob=True,
        return_logprobs=True,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
    )
    answered(request, "ab")
    arrays = request.arrays()
    assert arrays["finish_reason"].tolist() == [b"stop"]
    assert arrays["cumulative_logprob"].tolist() == [-1.0]
    assert arrays["cumulative_logprob"].dtype == np.float32
    assert json.loads(arrays["logprobs"][0])[0] == {
        "97": {"logprob": -0.5, "rank": None, "decoded_token": "a"}
    }
    assert arrays["num_input_tokens"].tolist() == [4]
    assert arrays["num_output_tokens"].tolist() == [2]
    assert arrays["num_output_tokens"].dtype == np.uint32


def test_in_a_stream_tokens_and_reasons_are_those_of_the_response():
    request = asked(stream=True, return_finish_reason=True, return_num_output_tokens=True)
    answered(request)
    rows = [
        {output.name: tensor_as_numpy(output).tolist() for output in answer.outputs}
        for answer in request.answers
    ]
    assert [row["finish_reason"] for row in rows] == [[b"None"], [b"None"], [b"stop"]]
    assert [row["num_output_tokens"] for row in rows] == [[3], [3], [1]]


def test_several_choices_are_elements_of_each_output():
    request = asked(sampling_parameters=b'{"n": 2}', exclude_input_in_output=True)
    answered(request, "one", "two2")
    assert request.arrays()["text_output"].tolist() == [b"one", b"two2"]


def test_sampling_parameters_are_json_or_the_parameters_of_the_request():
    engine = answered(asked(sampling_parameters=b'{"temperature": 0, "max_tokens": 5}'))
    assert engine.requests[0].sampling.temperature == 0
    assert engine.requests[0].most_tokens == 5
    engine = answered(asked(parameters={"temperature": "0.5", "max_tokens": 3, "other": True}))
    assert engine.requests[0].sampling.temperature == 0.5
    assert engine.requests[0].most_tokens == 3
    assert answered(asked()).requests[0].most_tokens == 16


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (b"{", "input 'sampling_parameters' is no JSON"),
        (b'{"temperature": -2}', "temperature is -2: expected 'float' >= 0.0"),
        (b'{"lora_name": "x"}', "LoRA feature is not enabled. lora_name is 'x'"),
        (b'{"max_tokens": 1000}', "max_tokens is 1000"),
    ],
)
def test_wrong_parameters_are_refused(parameters, said):
    with pytest.raises(InvalidArgumentError) as raised:
        answered(asked(sampling_parameters=parameters))
    assert said in raised.value.message


def test_an_input_of_two_prompts_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"'text_input' has shape \[2\], expected one"):
        answered(recorded({"text_input": np.array([b"a", b"b"], object)}))
