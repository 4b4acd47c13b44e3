# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from backends.api.errors import InternalError
from backends.config.pbtxt import parse_pbtxt, to_json_dict
from tests.support.models import auto_complete, context_of, load, write_python_model
from tests.support.python_probe import CONFIG, model_context
from tests.support.recording import execute, recorded

EXECUTE = "    def execute(self, requests):\n        return [pb_utils.InferenceResponse()]\n"
MODEL = "class TritonPythonModel:\n"


def test_arguments_of_initialize_are_those_of_triton(tmp_path):
    source = MODEL + "    def initialize(self, args):\n        self.args = args\n" + EXECUTE
    context = model_context(tmp_path, source, kind="GPU", device_id=1)
    args = load(context)._model.args
    config = json.loads(args.pop("model_config"))
    assert config == to_json_dict(context.config)
    assert args == {
        "model_instance_kind": "GPU",
        "model_instance_name": "probe_0_0",
        "model_instance_device_id": "1",
        "model_repository": context.model_dir,
        "model_version": "1",
        "model_name": "probe",
    }


def test_model_imports_helpers_next_to_it_and_in_the_model_directory(tmp_path):
    source = "import beside_model_zq, above_model_zq\n" + MODEL + EXECUTE
    context = model_context(tmp_path, source)
    (Path(context.version_dir) / "beside_model_zq.py").write_text("")
    (Path(context.model_dir) / "above_model_zq.py").write_text("")
    load(context)


def test_model_file_may_have_another_name(tmp_path):
    context = context_of(tmp_path, CONFIG + 'default_model_filename: "other.py"')
    write_python_model(context, MODEL + EXECUTE, filename="other.py")
    load(context)


def test_model_directory_is_told(tmp_path):
    source = (
        MODEL + "    def initialize(self, args):\n"
        "        self.directory = pb_utils.get_model_dir()\n" + EXECUTE
    )
    context = model_context(tmp_path, source)
    assert load(context)._model.directory == context.version_dir


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "def deep():\n    raise pb_utils.TritonModelException('never')\n"
            + MODEL
            + "    def initialize(self, args):\n        deep()\n"
            + EXECUTE,
            "TritonModelException: never\n\nAt:\n  {path}(4): deep\n  {path}(7): initialize\n",
        ),
        (
            MODEL + "    def initialize(self):\n        pass\n" + EXECUTE,
            "TypeError: TritonPythonModel.initialize() takes 1 positional argument but 2 were "
            "given",
        ),
        (
            "import no_such_module_zq",
            "ModuleNotFoundError: No module named 'no_such_module_zq'; list its package in a "
            "requirements.txt beside model.py, or name an environment that has it with parameter "
            "EXECUTION_ENV_PATH or runtime_env\n\nAt:\n  {path}(3): <module>\n",
        ),
        ("def (", "SyntaxError: invalid syntax (model.py, line 3)"),
        ("x = 1", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        (MODEL + "    pass", "Python model {path} does not implement `execute` method."),
    ],
)
def test_model_that_cannot_load_fails_with_the_text_of_triton(tmp_path, source, says):
    context = model_context(tmp_path, source)
    with pytest.raises(InternalError) as raised:
        load(context)
    assert raised.value.message.startswith(says.format(path=context.model_path("model.py")))


def test_missing_file_names_its_path(tmp_path):
    context = context_of(tmp_path, CONFIG)
    with pytest.raises(InternalError, match=f"Python model file not found in '{tmp_path}"):
        load(context)


def test_two_loads_of_a_model_do_not_share_module_state(tmp_path):
    source = "seen = []\n" + MODEL + "    seen = seen\n" + EXECUTE
    context = model_context(tmp_path, source)
    first, second = load(context), load(context)
    first._model.seen.append(1)
    assert second._model.seen == []


def test_finalize_is_called_and_may_fail(tmp_path, caplog):
    source = MODEL + EXECUTE + "    def finalize(self):\n        raise ValueError('fin')\n"
    with caplog.at_level(logging.ERROR):
        load(model_context(tmp_path, source)).close()
    assert "ValueError: fin" in caplog.text


@pytest.mark.parametrize(
    ("answer", "ready"), [("True", True), ("False", False), ("1", False), ("1 / 0", False)]
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_model_has_a_say_in_readiness(tmp_path, answer, ready, kind):
    source = MODEL + EXECUTE + f"    {kind} is_ready(self):\n        return {answer}\n"
    instance = load(model_context(tmp_path, source))
    assert (instance.has_readiness, instance.is_ready()) == (True, ready)


def test_model_without_an_opinion_is_ready(tmp_path):
    instance = load(model_context(tmp_path, MODEL + EXECUTE))
    assert (instance.has_readiness, instance.is_ready()) == (False, True)


def test_log_names_the_models_line(tmp_path, caplog):
    source = (
        MODEL + "    def execute(self, requests):\n"
        '        pb_utils.Logger.log_warn("100%s")\n'
        '        pb_utils.Logger.log("b", pb_utils.Logger.ERROR)\n'
        "        return [pb_utils.InferenceResponse()]\n"
    )
    instance = load(model_context(tmp_path, source))
    with caplog.at_level(logging.INFO):
        execute(instance, recorded({"INPUT0": np.zeros((1, 2), np.int32)}))
    assert [(one.levelname, one.message, one.filename, one.lineno) for one in caplog.records] == [
        ("WARNING", "100%s", "model.py", 5),
        ("ERROR", "b", "model.py", 6),
    ]


BARE = 'name: "probe" backend: "python" '


def completed(tmp_path, body, *, config=BARE):
    source = MODEL + "    @staticmethod\n    def auto_complete_config(config):\n"
    source += "".join(f"        {line}\n" for line in body.splitlines())
    return auto_complete(model_context(tmp_path, source + EXECUTE, config=config))


X = '{"name": "X", "data_type": "TYPE_FP32", "dims": [3]}'


def test_model_completes_its_config(tmp_path):
    config = completed(
        tmp_path,
        f"config.set_max_batch_size(4)\nconfig.add_input({X})\nconfig.add_output({X})\n"
        "config.set_dynamic_batching()\n"
        'config.set_model_transaction_policy({"decoupled": True})\nreturn config',
    )
    assert (config.max_batch_size, config.decoupled) == (4, True)
    assert config.dynamic_batching is not None
    assert [(one.name, one.datatype, one.dims) for one in config.input] == [("X", "FP32", (3,))]
    assert [one.name for one in config.output] == ["X"]


def test_model_without_auto_complete_keeps_its_config(tmp_path):
    context = model_context(tmp_path, MODEL + EXECUTE)
    assert auto_complete(context) == context.config


def test_inputs_the_model_does_not_mention_are_kept(tmp_path):
    config = completed(
        tmp_path,
        f"config.add_input({X})\nreturn config",
        config=BARE + 'input { name: "KEPT" data_type: TYPE_INT8 dims: [ 1 ] }',
    )
    assert [one.name for one in config.input] == ["KEPT", "X"]


def test_other_fields_cannot_be_changed(tmp_path):
    config = completed(tmp_path, 'config.as_dict()["backend"] = "other"\nreturn config')
    assert config == parse_pbtxt(BARE, "config.pbtxt")


GIVEN = (
    BARE
    + "max_batch_size: 6 "
    + "".join(
        f'{kind} {{ name: "X" data_type: TYPE_INT32 dims: [ 3 ] }} ' for kind in ("input", "output")
    )
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "pass",
            "auto_complete_config function in model 'probe' must return a valid pb.ModelConfig",
        ),
        (
            "config.set_max_batch_size(4)",
            "ValueError: configuration specified max_batch_size 6, but in auto-complete-config "
            "function for model 'probe' specified max_batch_size 4",
        ),
        (
            f"config.add_input({X})",
            "ValueError: unable to load model 'probe', configuration expects datatype TYPE_INT32 "
            "for input 'X', model provides TYPE_FP32",
        ),
        (
            'config.add_output({"name": "X", "data_type": "TYPE_INT32", "dims": [4]})',
            "ValueError: model 'probe', tensor 'X': the model expects dims [4] but the model "
            "configuration specifies dims [3]",
        ),
        (
            'config.add_input({"data_type": "TYPE_INT32", "dims": [4]})',
            "ValueError: input in auto-complete-config function for model 'probe' is missing "
            "'name' property.",
        ),
        (
            'config.add_output({"name": "Y", "dims": [4]})',
            "ValueError: output 'Y' in auto-complete-config function for model 'probe' is missing "
            "'data_type' property.",
        ),
        (
            'config.add_input({"name": "Y", "data_type": "TYPE_INT32", "shape": [4]})',
            "ValueError: input 'Y' in auto-complete-config function for model 'probe' contains "
            "property other than 'name', 'data_type', 'dims' and 'optional'.",
        ),
        (
            'config.add_output({"name": "Y", "data_type": "TYPE_INT32", "optional": True})',
            "ValueError: output 'Y' in auto-complete-config function for model 'probe' contains "
            "property other than 'name', 'data_type' and 'dims'.",
        ),
        (
            'config.set_model_transaction_policy({"x": 1})',
            "ValueError: model transaction property in auto-complete-config function for model "
            "'probe' contains property other than 'decoupled'.",
        ),
    ],
)
def test_bad_completion_fails_with_the_text_of_triton(tmp_path, body, says):
    with pytest.raises(InternalError) as raised:
        completed(tmp_path, body, config=GIVEN)
    assert raised.value.message.startswith(says)


def test_decoupled_policy_of_the_config_cannot_be_changed(tmp_path):
    with pytest.raises(InternalError, match="which is already set to 'False'"):
        completed(
            tmp_path,
            'config.set_model_transaction_policy({"decoupled": True})',
            config=BARE + "model_transaction_policy { decoupled: false }",
        )


def test_sequence_batcher_is_not_replaced(tmp_path):
    with pytest.raises(InternalError, match="Configuration specified scheduling_choice as 'seq"):
        completed(tmp_path, "config.set_dynamic_batching()", config=BARE + "sequence_batching { }")
