# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from backends.config.pbtxt import to_pbtxt
from tests.support import saved_models
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed: make frameworks")
v1 = tf.compat.v1

BARE = 'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel" '


class Digits(tf.Module):
    """Two layers with variables."""

    def __init__(self):
        super().__init__()
        seeded = np.random.default_rng(0)
        self.hidden = tf.Variable(seeded.standard_normal((64, 32)).astype(np.float32) / 8)
        self.out = tf.Variable(seeded.standard_normal((32, 10)).astype(np.float32) / 6)

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="PIXELS")])
    def __call__(self, pixels):
        scores = tf.nn.relu(pixels @ self.hidden) @ self.out
        return {"SCORES": tf.nn.softmax(scores), "DIGIT": tf.argmax(scores, axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="X")])
    def negate(self, x):
        return {"Y": -x}


class Words(tf.Module):
    """Strings and a table that has to be initialised."""

    def __init__(self):
        super().__init__()
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(["grün", "rot"]), tf.constant([1, 2], tf.int64)
        )
        self.table = tf.lookup.StaticHashTable(entries, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.string, name="WORDS")])
    def __call__(self, words):
        return {"IDS": self.table.lookup(words), "TWICE": tf.strings.join([words, words])}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A directory of SavedModels as TensorFlow 2 writes them."""
    root = tmp_path_factory.mktemp("saved")
    digits, words = Digits(), Words()
    tf.saved_model.save(
        digits,
        str(root / "digits"),
        signatures={
            "serving_default": digits.__call__.get_concrete_function(),
            "negate": digits.negate.get_concrete_function(),
        },
    )
    signatures = {"serving_default": words.__call__.get_concrete_function()}
    tf.saved_model.save(words, str(root / "words"), signatures=signatures)
    return root


def context_with(tmp_path, model, config=BARE, **fields):
    """Return the context of a model whose SavedModel is elsewhere."""
    context = context_of(tmp_path, config, **fields)
    link = Path(context.model_path("model.savedmodel"))
    if not link.exists():
        link.symlink_to(model)
    return context


def completed(tmp_path, model, config=BARE, **fields):
    """Return the same with a completed config."""
    text = to_pbtxt(auto_complete(context_with(tmp_path, model, config, **fields)))
    return context_with(tmp_path, model, text, **fields)


def pixels(seed, rows):
    return np.random.default_rng(seed).random((rows, 64), np.float32)


def test_digits_are_answered_as_tensorflow_itself_does_batched_and_alone(tmp_path, saved):
    context = completed(tmp_path, saved / "digits")
    assert context.config.max_batch_size == 4
    instance = load(context)
    own = tf.saved_model.load(str(saved / "digits")).signatures["serving_default"]
    given = [pixels(seed, rows) for seed, rows in enumerate((1, 2, 1))]
    together = [recorded({"PIXELS": each}) for each in given]
    alone = [recorded({"PIXELS": each}) for each in given]
    batch = execute(instance, *together)
    for request in alone:
        execute(instance, request)
    for each, first, second in zip(given, together, alone, strict=True):
        expected = own(PIXELS=tf.constant(each))
        for request in (first, second):
            arrays = request.arrays()
            np.testing.assert_allclose(arrays["SCORES"], expected["SCORES"], rtol=1e-5, atol=1e-6)
            assert np.array_equal(arrays["DIGIT"], expected["DIGIT"])
            assert arrays["DIGIT"].dtype == np.int64
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns
    instance.close()


def test_only_outputs_that_are_asked_for_are_computed(tmp_path, saved):
    instance = load(completed(tmp_path, saved / "digits"))
    one = recorded({"PIXELS": pixels(0, 1)}, outputs=["DIGIT"])
    other = recorded({"PIXELS": pixels(1, 1)}, outputs=["SCORES"])
    execute(instance, one)
    assert list(one.arrays()) == ["DIGIT"]
    one = recorded({"PIXELS": pixels(0, 1)}, outputs=["DIGIT"])
    execute(instance, one, other)
    assert (list(one.arrays()), list(other.arrays())) == (["DIGIT"], ["SCORES"])


def test_other_signature_is_run_on_request(tmp_path, saved):
    config = BARE + 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "negate" } }'
    request = recorded({"X": np.ones((2, 4), np.float32)})
    execute(load(completed(tmp_path, saved / "digits", config)), request)
    assert request.arrays()["Y"].tolist() == [[-1] * 4] * 2


def test_strings_and_tables_work_batched(tmp_path, saved):
    instance = load(completed(tmp_path, saved / "words"))
    rows = [["grün", ""], ["rot", "a\0b"]]
    requests = [
        recorded({"WORDS": np.array([[word.encode() for word in row]], object)}) for row in rows
    ]
    execute(instance, *requests)
    assert [request.arrays()["IDS"].tolist() for request in requests] == [[[1, -1]], [[2, -1]]]
    assert [request.arrays()["TWICE"].tolist() for request in requests] == [
        [[(word * 2).encode() for word in row]] for row in rows
    ]


def test_strings_need_not_be_text(tmp_path, saved):
    request = recorded({"WORDS": np.array([[b"\xff\xfe", b""]], object)})
    execute(load(completed(tmp_path, saved / "words")), request)
    assert request.arrays()["TWICE"].tolist() == [[b"\xff\xfe\xff\xfe", b""]]


@pytest.fixture(scope="module")
def first_generation(tmp_path_factory):
    """A SavedModel and a GraphDef of TensorFlow 1, and the answers."""
    root = tmp_path_factory.mktemp("first")
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        weights = v1.get_variable("w", initializer=tf.constant([1.0, 2.0, 3.0, 4.0]))
        y = tf.multiply(x, weights, name="y")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(root / "saved"))
        signature = v1.saved_model.predict_signature_def({"IN": x}, {"OUT": y})
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}
        )
        builder.save()
        frozen = v1.graph_util.convert_variables_to_constants(session, session.graph_def, ["y"])
    (root / "model.graphdef").write_bytes(frozen.SerializeToString())
    return root


def test_saved_model_of_the_first_generation_runs(tmp_path, first_generation):
    request = recorded({"IN": np.ones((3, 4), np.float32)})
    execute(load(completed(tmp_path, first_generation / "saved")), request)
    assert request.arrays()["OUT"].tolist() == [[1, 2, 3, 4]] * 3


GRAPH = """
name: "m" backend: "tensorflow" platform: "tensorflow_graphdef" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""


def graph_def(tmp_path, first_generation, config=GRAPH):
    context = context_of(tmp_path, config)
    content = (first_generation / "model.graphdef").read_bytes()
    Path(context.model_path("model.graphdef")).write_bytes(content)
    return context


def test_graph_def_runs_by_the_names_of_its_operations(tmp_path, first_generation):
    instance = load(graph_def(tmp_path, first_generation))
    requests = [recorded({"x": np.full((rows, 4), rows, np.float32)}) for rows in (1, 2)]
    execute(instance, *requests)
    assert [request.arrays()["y"].tolist() for request in requests] == [
        [[1, 2, 3, 4]],
        [[2, 4, 6, 8]] * 2,
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"x"', '"none"', "unexpected inference input 'none', allowed inputs are: x"),
        ('"y"', '"none"', "unexpected inference output 'none', allowed outputs are: "),
        (
            "output",
            'input { name: "z" data_type: TYPE_FP32 dims: [ 4 ] } output',
            "unable to load model 'm', configuration expects 2 inputs, model provides at most 1",
        ),
    ],
)
def test_graph_def_that_the_config_contradicts_has_the_text_of_triton(
    tmp_path, first_generation, old, new, says
):
    with pytest.raises(InvalidArgumentError) as raised:
        load(graph_def(tmp_path, first_generation, GRAPH.replace(old, new, 1)))
    assert raised.value.message.startswith(says)


def test_init_operations_run_before_the_first_request(tmp_path):
    context = context_of(
        tmp_path,
        GRAPH + 'parameters { key: "TF_INIT_OPS_FILE" value { string_value: "init.json" } }',
    )
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        variable = v1.get_variable("v", shape=[], dtype=tf.float32, use_resource=False)
        v1.assign(variable, 5.0, name="fill")
        tf.multiply(x, variable, name="y")
        content = graph.as_graph_def().SerializeToString()
    Path(context.model_path("model.graphdef")).write_bytes(content)
    Path(context.version_dir, "init.json").write_text(json.dumps({"init_ops": ["fill"]}))
    request = recorded({"x": np.ones((1, 4), np.float32)})
    execute(load(context), request)
    assert request.arrays()["y"].tolist() == [[5] * 4]
    Path(context.version_dir, "init.json").write_text(json.dumps({"init_ops": ["missing"]}))
    with pytest.raises(InternalError, match=r"failed to load model 'm': .*missing"):
        load(context)


def test_identity_answers_with_memory_of_its_own(tmp_path):
    config = BARE + (
        'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: [ 8192 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 8192 ] }'
    )
    context = context_of(tmp_path, config)
    definition = saved_models.graph(
        saved_models.placeholder("x", "FP32", (-1, 8192)),
        saved_models.node("y", "Identity", "x", T=saved_models.field(6, 1)),
    )
    both = saved_models.signature(
        {"X": saved_models.Named("x:0", "FP32", (-1, 8192))},
        {"Y": saved_models.Named("y:0", "FP32", (-1, 8192))},
    )
    directory = context.model_path("model.savedmodel")
    saved_models.save(directory, definition, {"serving_default": both})
    request = recorded({"X": np.ones((1, 8192), np.float32)})
    memory = bytearray(request.request.inputs[0].data)
    request.request.inputs[0].data = memoryview(memory)
    execute(load(context), request)
    memory[:] = bytes(len(memory))
    assert set(request.arrays()["Y"].ravel()) == {1}


def test_request_that_fails_in_the_model_fails_only_itself(tmp_path):
    class Pick(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.int32, name="INDEX")])
        def __call__(self, index):
            return {"PICKED": tf.gather(tf.constant([10.0, 20.0, 30.0]), index)}

    model = Pick()
    signatures = {"serving_default": model.__call__.get_concrete_function()}
    tf.saved_model.save(model, str(tmp_path / "pick"), signatures=signatures)
    instance = load(completed(tmp_path, tmp_path / "pick"))
    requests = [recorded({"INDEX": np.array([[index]], np.int32)}) for index in (2, 99, 0)]
    execute(instance, *requests)
    assert [requests[k].arrays()["PICKED"].tolist() for k in (0, 2)] == [[[30.0]], [[10.0]]]
    message = requests[1].error.message
    assert isinstance(requests[1].error, InternalError)
    assert "99 is not in [0, 3)" in message
    assert "(model 'm', inputs 'INDEX' [1, 1])" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("FP16", np.float16),
        ("UINT64", np.uint64),
        ("BOOL", np.bool_),
        ("FP64", np.float64),
        ("BF16", None),
    ],
)
def test_datatypes_pass_through(tmp_path, name, dtype):
    import ml_dtypes

    dtype = np.dtype(dtype or ml_dtypes.bfloat16)

    class Same(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.as_dtype(dtype), name="X")])
        def __call__(self, x):
            return {"Y": tf.reverse(x, [1])}

    model = Same()
    signatures = {"serving_default": model.__call__.get_concrete_function()}
    tf.saved_model.save(model, str(tmp_path / "same"), signatures=signatures)
    context = completed(tmp_path, tmp_path / "same")
    assert context.config.input[0].datatype == name
    request = recorded({"X": np.array([[1, 0, 0]], dtype)})
    execute(load(context), request)
    assert request.arrays()["Y"].dtype == dtype
    assert request.arrays()["Y"].tolist() == [[0, 0, 1]]


def test_scalars_travel_as_one_element(tmp_path):
    class Halve(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="X")])
        def __call__(self, x):
            return {"Y": x / 2, "TEXT": tf.strings.as_string(x, precision=1)}

    model = Halve()
    signatures = {"serving_default": model.__call__.get_concrete_function()}
    tf.saved_model.save(model, str(tmp_path / "halve"), signatures=signatures)
    request = recorded({"X": np.array([5], np.float32)})
    execute(load(completed(tmp_path, tmp_path / "halve")), request)
    assert request.arrays()["Y"].tolist() == [2.5]
    assert request.arrays()["TEXT"].tolist() == [b"5.0"]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (
            ("TYPE_FP32", "TYPE_INT32"),
            InvalidArgumentError,
            "unable to load model 'm', configuration expects datatype TYPE_INT32 for input "
            "'PIXELS', model provides TYPE_FP32",
        ),
        (
            ('"PIXELS"', '"OTHER"'),
            InvalidArgumentError,
            "unexpected inference input 'OTHER', allowed inputs are: PIXELS",
        ),
        (
            ("dims: 64", "dims: 63"),
            InvalidArgumentError,
            "model 'm', tensor 'PIXELS': the model expects 2 dimensions (shape [-1,64]) but",
        ),
    ],
)
def test_config_that_contradicts_the_model_has_the_text_of_triton(
    tmp_path, saved, change, error, says
):
    text = to_pbtxt(auto_complete(context_with(tmp_path, saved / "digits"))).replace(*change, 1)
    with pytest.raises(error) as raised:
        load(context_with(tmp_path, saved / "digits", text))
    assert raised.value.message.startswith(says)


def test_broken_variables_are_told_on_one_line(tmp_path, saved):
    context = completed(tmp_path, saved / "digits")
    link = Path(context.model_path("model.savedmodel"))
    link.unlink()
    link.mkdir()
    content = (saved / "digits" / "saved_model.pb").read_bytes()
    (link / "saved_model.pb").write_bytes(content)
    with pytest.raises(TritonError) as raised:
        load(context)
    assert raised.value.message.startswith("failed to load model 'm': ")
    assert "\n" not in raised.value.message


def test_gpu_instance_never_runs_on_the_cpu_silently(tmp_path, saved, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [])
    context = completed(tmp_path, saved / "digits")
    with pytest.raises(UnavailableError, match="TensorFlow sees no GPU"):
        load(context_with(tmp_path, saved / "digits", to_pbtxt(context.config), kind="GPU"))


def test_sparse_tensor_is_refused(tmp_path):
    config = BARE + (
        'input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }'
    )
    context = context_of(tmp_path, config)
    directory = context.model_path("model.savedmodel")
    definition = saved_models.graph(saved_models.placeholder("x", "FP32", (4,)))
    both = saved_models.signature(
        {"X": saved_models.Named("", "FP32", (4,))}, {"Y": saved_models.Named("x:0", "FP32", (4,))}
    )
    saved_models.save(directory, definition, {"serving_default": both})
    with pytest.raises(UnsupportedError, match="has no tensor 'X' of its own"):
        load(context)


def test_openvino_gives_the_same_answers_in_its_place(tmp_path, saved, monkeypatch):
    from backends.tensorflow import choice

    context = completed(tmp_path, saved / "digits")
    given = pixels(3, 3)
    results = []
    for installed in (True, False):
        monkeypatch.setattr(
            choice, "is_installed", lambda package, here=installed: here or package != "tensorflow"
        )
        request = recorded({"PIXELS": given})
        execute(load(context), request)
        results.append(request.arrays())
    np.testing.assert_allclose(results[1]["SCORES"], results[0]["SCORES"], rtol=1e-4, atol=1e-6)
    assert np.array_equal(results[1]["DIGIT"], results[0]["DIGIT"])
