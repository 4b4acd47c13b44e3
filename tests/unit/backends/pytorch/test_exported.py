# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Exported programs, which tell what they take and give."""

import logging

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError, TritonError
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from backends.pytorch.exported import read_interface  # noqa: E402 - needs PyTorch
from backends.pytorch.shape_guards import Bounds, ShapeGuards  # noqa: E402 - needs PyTorch
from tests.support import torch_models as models  # noqa: E402 - needs PyTorch
from tests.support import torch_sequences as sequences  # noqa: E402 - needs PyTorch

BARE = 'name: "m" platform: "torch_aoti" '
INT_PAIR = (torch.zeros(2, 4, dtype=torch.int32), torch.zeros(2, 4, dtype=torch.int32))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Paths of programs: exporting takes a while."""
    folder = tmp_path_factory.mktemp("programs")
    pair = {"b": torch.zeros(2, 3), "a": torch.zeros(2, 3)}
    paths = {name: str(folder / f"{name}.pt2") for name in ("add_sub", "layers", "nested")}
    models.save_export(models.AddSub(), paths["add_sub"], *INT_PAIR)
    models.save_export(models.Layers(), paths["layers"], torch.zeros(2, 16), most=3)
    models.save_export(models.Nested(), paths["nested"], pair, scale=torch.zeros(2, 3))
    return paths


def context(tmp_path, text, path, **fields):
    made = context_of(tmp_path, text, **fields)
    target = made.model_path("model.pt2")
    with open(path, "rb") as source, open(target, "wb") as copy:  # noqa: PTH123 - one line
        copy.write(source.read())
    return made


def named(tensors, head="max_batch_size: 8 "):
    return (
        BARE
        + head
        + "".join(
            f'{side} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] }} '
            for side, name, datatype, dims in tensors
        )
    )


def test_a_config_is_completed_from_the_program(tmp_path, programs, caplog):
    with caplog.at_level(logging.WARNING):
        config = auto_complete(context(tmp_path, BARE, programs["add_sub"]))
    assert [(each.name, each.datatype, each.dims) for each in config.input] == [
        ("INPUT0", "INT32", (4,)),
        ("INPUT1", "INT32", (4,)),
    ]
    assert [(each.name, each.datatype, each.dims) for each in config.output] == [
        ("OUTPUT__0", "INT32", (4,)),
        ("OUTPUT__1", "INT32", (4,)),
    ]
    assert config.max_batch_size == 4
    assert config.dynamic_batching is not None
    assert "autofilled max_batch_size to 4 for model 'm'" in caplog.text


def test_the_batch_size_is_at_most_the_programs(tmp_path, programs):
    config = auto_complete(context(tmp_path, BARE, programs["layers"]))
    assert config.max_batch_size == 3


def test_keys_of_a_dict_name_outputs_and_nested_tensors_have_the_names_of_the_graph(
    tmp_path, programs
):
    config = auto_complete(context(tmp_path, BARE, programs["nested"]))
    assert [each.name for each in config.input] == ["pair_b", "pair_a", "scale"]
    assert [each.name for each in config.output] == ["total", "OUTPUT__1", "OUTPUT__2"]


def test_a_completed_model_answers_batched_and_alone_as_pytorch_does(tmp_path, programs):
    bare = context(tmp_path, BARE, programs["layers"])
    text = named([("input", "x", "FP32", 16), ("output", "OUTPUT__0", "FP32", 10)])
    instance = load(context(tmp_path, text, programs["layers"]))
    assert auto_complete(bare).output[0].dims == (10,)
    layers = models.Layers()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((rows, 16)).astype(np.float32) for rows in (1, 2)]
    for batch in ([0], [1], [0, 1]):
        requests = [recorded({"x": arrays[place]}) for place in batch]
        execute(instance, *requests)
        for place, request in zip(batch, requests, strict=True):
            with torch.no_grad():
                expected = layers(torch.from_numpy(arrays[place])).numpy()
            np.testing.assert_allclose(request.arrays()["OUTPUT__0"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (("pair_a", "pair_b", "scale"), ("total", "OUTPUT__1", "OUTPUT__2")),
        (("ARGS[0][a]", "ARGS[0][b]", "KWARGS[scale]"), ("RESULT[total]", "RESULT[parts][0]")),
        (("INPUT__1", "INPUT__0", "INPUT__2"), ("OUTPUT__0", "RESULT[parts][0]")),
        (("a__1", "b__0", "c__2"), ("x__0", "y__1")),
    ],
)
def test_tensors_may_be_named_in_every_way(tmp_path, programs, inputs, outputs):
    text = named(
        [("input", name, "FP32", 3) for name in inputs]
        + [("output", name, "FP32", 3) for name in outputs]
    )
    instance = load(context(tmp_path, text, programs["nested"]))
    a, b, scale = (np.full((1, 3), value, np.float32) for value in (5, 7, 2))
    request = recorded(dict(zip(inputs, (a, b, scale), strict=True)))
    execute(instance, request)
    made = request.arrays()
    assert made[outputs[0]].tolist() == [[34.0] * 3]
    # The parts are a and b.
    assert made[outputs[1]].tolist() == [[5.0] * 3]


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        (
            [("input", "INPUT0", "INT32", 4), ("output", "OUTPUT__0", "INT32", 4)],
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            [
                ("input", "INPUT0", "FP32", 4),
                ("input", "INPUT1", "INT32", 4),
                ("output", "OUTPUT__0", "INT32", 4),
            ],
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input "
            "'INPUT0', model provides TYPE_INT32",
        ),
        (
            [
                ("input", "INPUT0", "INT32", 4),
                ("input", "INPUT1", "INT32", 4),
                ("output", "OUTPUT__0", "INT32", 5),
            ],
            "model 'm', tensor 'OUTPUT__0': the model expects 2 dimensions (shape [-1,4]) but the "
            "model configuration specifies 2 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,5])",
        ),
    ],
)
def test_a_config_that_contradicts_the_program_is_refused(tmp_path, programs, tensors, says):
    with pytest.raises(TritonError) as raised:
        load(context(tmp_path, named(tensors), programs["add_sub"]))
    assert raised.value.message == says


def test_a_batch_beyond_the_programs_names_the_input(tmp_path, programs):
    text = named([("input", "x", "FP32", 16), ("output", "y", "FP32", 10)])
    request = recorded({"x": np.zeros((5, 16), np.float32)})
    execute(load(context(tmp_path, text, programs["layers"])), request)
    assert isinstance(request.error, InvalidArgumentError)
    assert request.error.message == (
        "input 'x' of model 'm' has shape [5, 16], but its exported program takes 1 to 3 in "
        "dimension 0"
    )


def test_a_batch_that_joins_to_more_than_the_program_takes_runs_alone(tmp_path, programs):
    text = named([("input", "x", "FP32", 16), ("output", "y", "FP32", 10)])
    requests = [recorded({"x": np.zeros((2, 16), np.float32)}) for _ in range(2)]
    execute(load(context(tmp_path, text, programs["layers"])), *requests)
    assert [each.arrays()["y"].shape for each in requests] == [(2, 10), (2, 10)]


class Remembering(torch.nn.Module):
    """Counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_program_with_a_state_keeps_it(tmp_path, decomposed):
    program = models.export(Remembering(), torch.zeros(2, 3))
    # Then what it writes to is among its results.
    program = models.decomposed(program) if decomposed else program
    torch.export.save(program, str(tmp_path / "p.pt2"))
    text = named([("input", "x", "FP32", 3), ("output", "y", "FP32", 3)])
    instance = load(context(tmp_path, text, str(tmp_path / "p.pt2")))
    for count in (1, 2):
        request = recorded({"x": np.zeros((1, 3), np.float32)})
        execute(instance, request)
        assert request.arrays()["y"].tolist() == [[count] * 3]
    request = recorded({"x": np.zeros((65, 3), np.float32)})
    execute(instance, request)
    assert isinstance(request.error, InvalidArgumentError)
    guard = "Guard failed: x.size()[0] <= 64" if decomposed else "input 'x' of model 'm' has shape"
    assert request.error.message.startswith(guard)


OF_THE_MODEL = ["INPUT0", "INPUT_STATE", "START", "READY", "CORRID", "OUTPUT__0", "RESULT[1]"]


@pytest.mark.parametrize("names", [sequences.ORDINAL, sequences.FORWARD, OF_THE_MODEL])
def test_sequences_have_controls_and_a_state_of_any_name(tmp_path, names):
    path = str(tmp_path / "p.pt2")
    models.save_export(models.Accumulator(), path, *models.Accumulator.example(), most=8)
    instance = load(context(tmp_path, sequences.config(names), path))
    steps = [sequences.step(names, 2, 50, True, 100), sequences.step(names, 3, 10, False, 200)]
    execute(instance, *steps)
    made = [[array.item() for array in each.arrays().values()] for each in steps]
    assert made == [[102, 2], [213, 13]]


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_program_that_writes_to_its_input_does_not_change_the_request(tmp_path, decomposed):
    program = models.export(models.InPlace(), torch.zeros(2, 20000))
    program = models.decomposed(program) if decomposed else program
    torch.export.save(program, str(tmp_path / "p.pt2"))
    text = named([("input", "X", "FP32", 20000), ("output", "y", "FP32", 20000)])
    request = recorded({"X": np.ones((1, 20000), np.float32)})
    execute(load(context(tmp_path, text, str(tmp_path / "p.pt2"))), request)
    assert request.arrays()["y"].max() == 2
    assert np.frombuffer(request.request.inputs[0].data, np.float32).max() == 1


class Doubled(torch.nn.Module):
    """Takes one tensor that is twice as long as the other."""

    def forward(self, x, y):
        return x + y[::2]


def test_a_dimension_may_follow_from_another(tmp_path):
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        Doubled(),
        (torch.zeros(2), torch.zeros(4)),
        dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch}},
    )
    torch.export.save(program, str(tmp_path / "p.pt2"))
    text = named(
        [("input", "x", "FP32", -1), ("input", "y", "FP32", -1), ("output", "z", "FP32", -1)],
        head="",
    )
    instance = load(context(tmp_path, text, str(tmp_path / "p.pt2")))
    requests = [
        recorded({"x": np.ones(3, np.float32), "y": np.arange(size, dtype=np.float32)})
        for size in (6, 5)
    ]
    for request in requests:
        execute(instance, request)
    assert requests[0].arrays()["z"].tolist() == [1, 3, 5]
    assert isinstance(requests[1].error, InvalidArgumentError)
    assert requests[1].error.message.startswith("Guard failed: ")


class Optional(torch.nn.Module):
    def forward(self, x, negate, y):
        return (-x if negate else x) + y


def test_arguments_that_are_no_tensors_stay_as_they_were_exported(tmp_path):
    program = torch.export.export(Optional(), (torch.zeros(3), True, torch.zeros(3)))
    torch.export.save(program, str(tmp_path / "p.pt2"))
    text = named(
        [("input", "y", "FP32", 3), ("input", "x", "FP32", 3), ("output", "z", "FP32", 3)], head=""
    )
    request = recorded({"x": np.full(3, 5, np.float32), "y": np.full(3, 7, np.float32)})
    execute(load(context(tmp_path, text, str(tmp_path / "p.pt2"))), request)
    assert request.arrays()["z"].tolist() == [2, 2, 2]


def test_an_interface_tells_dimensions_and_their_bounds():
    program = models.export(models.AddSub(), *INT_PAIR, most=8)
    interface = read_interface(program, "m")
    (first, four), other = interface.shapes
    assert (four, tuple(other)) == (4, (first, 4))
    assert interface.bounds[first] == Bounds(1, 8)
    assert interface.signature.most_items == 8


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([(2, 4), (2, 4)], None),
        ([(1, 4), (1, 4)], None),
        ([(9, 4), (9, 4)], "input 'A' of model 'm' has shape [9, 4], but .* 0 to 8 in dimension 0"),
        ([(2, 4), (3, 4)], "input 'B' of model 'm' has shape [3, 4], but .* 2 in dimension 0, as"),
        ([(2, 5), (2, 4)], "input 'A' of model 'm' has shape [2, 5], but .* 4 in dimension 1"),
        ([(2, 4), (2,)], "input 'B' of model 'm' has shape [2], but .* 2 dimensions"),
    ],
)
def test_shapes_are_those_that_the_program_was_made_for(shapes, says):
    guards = ShapeGuards("m", "AB", [("s", 4), ("s", 4)], {"s": Bounds(None, 8)})
    tensors = [torch.empty(shape) for shape in shapes]
    if says is None:
        guards.check(tensors)
        return
    with pytest.raises(InvalidArgumentError, match=says.replace("[", r"\[")):
        guards.check(tensors)


def test_a_least_size_binds_from_three_on():
    assert Bounds(2).allow(1)
    assert not Bounds(3).allow(2)
