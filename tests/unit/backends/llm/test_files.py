# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import registry
from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from backends.llm.gguf_file import read_gguf
from tests.support.models import auto_complete, context_of

CONFIG = 'name: "m" backend: "llm"'
F32, F16, Q4_K = 0, 1, 12


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(values, formats):
    """A GGUF file with these keys, a list of texts and one of numbers, and a tensor a format."""
    keys = b""
    for key, value in values.items():
        tagged = (
            struct.pack("<I", 8) + text(value)
            if isinstance(value, str)
            else struct.pack("<II", 4, value)
        )
        keys += text(key) + tagged
    keys += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
    keys += text("kinds") + struct.pack("<IIQ", 9, 4, 3) + bytes(12)
    tensors = b"".join(
        text(f"t{at}") + struct.pack("<IQQIQ", 2, 4, 4, kind, 0) for at, kind in enumerate(formats)
    )
    tensors += text("norm") + struct.pack("<IQIQ", 1, 4, F32, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, len(formats) + 1, len(values) + 2) + keys + tensors


LLAMA = {
    "general.architecture": "llama",
    "llama.context_length": 512,
    "tokenizer.chat_template": "{{ messages }}",
}


def model(root, content=None, config=CONFIG, name="model.gguf", **fields):
    context = context_of(root, config, **fields)
    if content is not None:
        (Path(context.version_dir) / name).write_bytes(content)
    return context


def folder(root, **files):
    context = context_of(root, CONFIG)
    made = Path(context.version_dir) / "model"
    made.mkdir()
    for name, content in files.items():
        (made / name.replace("__", ".")).write_text(content)
    return context


EXPORTED = {
    "openvino_model__xml": "<net/>",
    "openvino_tokenizer__xml": "<net><rt_info><chat_template value=''/></rt_info></net>",
    "openvino_detokenizer__xml": "<net/>",
    "config__json": json.dumps({"model_type": "qwen2", "max_position_embeddings": 2048}),
}


def refused(context, call=auto_complete):
    with pytest.raises(TritonError) as raised:
        call(context)
    return raised.value


def test_a_file_completes_the_config(tmp_path):
    config = auto_complete(model(tmp_path, gguf(LLAMA, [F16])))
    assert config.decoupled
    assert config.max_batch_size == 0
    assert config.parameters["openai.routes"] == "chat/completions,completions"
    inputs = {each.name: (each.datatype, each.dims, each.optional) for each in config.input}
    assert inputs["text_input"] == ("BYTES", (1,), True)
    assert inputs["stream"] == ("BOOL", (1,), True)
    assert inputs["openai_request"] == ("BYTES", (1,), True)
    outputs = {each.name: (each.datatype, each.dims) for each in config.output}
    assert outputs["text_output"] == ("BYTES", (-1,))
    assert outputs["num_output_tokens"] == ("UINT32", (-1,))
    assert outputs["openai_response"] == ("BYTES", (1,))


def test_without_a_chat_template_there_are_completions_only(tmp_path):
    plain = {key: value for key, value in LLAMA.items() if "template" not in key}
    config = auto_complete(model(tmp_path, gguf(plain, [F16])))
    assert config.parameters["openai.routes"] == "completions"


def test_tensors_that_a_config_names_stay_as_they_are(tmp_path):
    text_input = 'input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }'
    config = auto_complete(model(tmp_path, gguf(LLAMA, [F16]), f"{CONFIG} {text_input}"))
    (found,) = [each for each in config.input if each.name == "text_input"]
    assert not found.optional
    assert len([each for each in config.input if each.name == "stream"]) == 1


def test_a_folder_that_was_exported_completes_the_config(tmp_path):
    config = auto_complete(folder(tmp_path, **EXPORTED))
    assert config.parameters["openai.routes"] == "chat/completions,completions"


def test_files_are_checked_without_the_engine(tmp_path):
    context = model(tmp_path, gguf(LLAMA, [F16]))
    checked = registry.check_files(context, auto_complete=True)
    assert checked.is_complete
    assert checked.config == auto_complete(context)
    assert checked.left_open == ("whether the engine can read the weights",)


@pytest.mark.parametrize(
    "call", [auto_complete, lambda c: registry.check_files(c, auto_complete=False)]
)
@pytest.mark.parametrize(
    ("values", "formats", "said"),
    [
        (LLAMA, [F32], "weights in F32; the engine 'openvino' reads GGUF files of F16"),
        (
            LLAMA | {"general.architecture": "gemma3"},
            [F16],
            "of the architecture 'gemma3'; the engine 'openvino' reads GGUF files of "
            "['llama','qwen2','qwen3']: export the model to a folder with 'optimum-cli",
        ),
    ],
)
def test_a_file_that_the_engine_cannot_read_is_refused_with_a_remedy(
    tmp_path, call, values, formats, said
):
    error = refused(model(tmp_path, gguf(values, formats)), call)
    assert isinstance(error, InvalidArgumentError)
    assert said in error.message


def test_a_format_that_it_may_read_is_left_to_the_load(tmp_path):
    assert auto_complete(model(tmp_path, gguf(LLAMA, [F16, Q4_K])))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\3\4" * 9, gguf(LLAMA, [F16])[:-30]])
def test_a_file_that_is_none_is_refused(tmp_path, content):
    assert "which is no GGUF file" in refused(model(tmp_path, content)).message


@given(content=st.binary(max_size=200), cut=st.integers(0, 400))
def test_whatever_a_file_holds_the_error_is_one_of_the_server(tmp_path_factory, content, cut):
    path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    path.write_bytes(gguf(LLAMA, [F16])[:cut] + content)
    with contextlib.suppress(InvalidArgumentError):
        read_gguf(str(path), "m")


def test_a_model_without_files_is_unavailable(tmp_path):
    error = refused(model(tmp_path))
    assert isinstance(error, UnavailableError)
    assert "1/model.gguf' or '" in error.message


def test_the_name_of_the_file_may_be_configured(tmp_path):
    config = f'{CONFIG} default_model_filename: "x.gguf"'
    assert auto_complete(model(tmp_path, gguf(LLAMA, [F16]), config, "x.gguf"))
    assert "x.gguf'" in refused(model(tmp_path / "no", config=config)).message


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("openvino_model__xml", "a Hugging Face folder without 'openvino_model.xml': export it"),
        ("openvino_detokenizer__xml", "without 'openvino_detokenizer.xml': export it with its"),
    ],
)
def test_a_folder_that_was_not_exported_is_refused_with_the_command(tmp_path, left_out, said):
    files = {name: content for name, content in EXPORTED.items() if name != left_out}
    message = refused(folder(tmp_path, **files)).message
    assert said in message
    assert "optimum-cli export openvino --model FOLDER OUTPUT" in message


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("max_batch_size: 4", "has max_batch_size 4, expected 0"),
        ('parameters { key: "engine" value { string_value: "x" } }', "engine 'x', expected one"),
        (
            'parameters { key: "max_num_seqs" value { string_value: "0" } }',
            "parameter max_num_seqs '0', expected a positive integer",
        ),
        (
            'parameters { key: "INFERENCE_PRECISION_HINT" value { string_value: "i8" } }',
            "expected 'f32', 'f16' or 'bf16'",
        ),
    ],
)
def test_a_wrong_config_is_refused(tmp_path, config, said):
    assert said in refused(model(tmp_path, gguf(LLAMA, [F16]), f"{CONFIG} {config}")).message


def test_a_tool_parser_that_there_is_not_is_refused(tmp_path):
    config = f'{CONFIG} parameters {{ key: "tool_parser" value {{ string_value: "x" }} }}'
    context = model(tmp_path, gguf(LLAMA, [F16]), config)
    error = refused(context, lambda c: registry.check_files(c, auto_complete=True))
    assert "tool_parser 'x', expected one of ['hermes','json']" in error.message


def test_gpus_are_refused(tmp_path):
    context = replace(model(tmp_path, gguf(LLAMA, [F16])), kind="GPU")
    assert "has KIND_GPU, and the engine 'openvino' takes KIND_CPU only" in refused(context).message
