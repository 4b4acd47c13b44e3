# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What of a config is searched, and which candidates that makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.space import automatic, manual
from manta_tools.analyze.space.automatic import Domains
from manta_tools.analyze.space.dimensions import numbers, of_values, powers_of_two
from manta_tools.analyze.space.product import Served, Space
from tests.support.analyzed_servers import config_of

ALL = Domains((1, 2), (1, 4), (0, 100), (1, 2), (0.25, 0.5))
GROUP = "instance_group { kind: KIND_CPU }"


def searched(text, domains=ALL, **named):
    config = config_of("m", text)
    return {each.name: len(each.choices) for each in automatic.dimensions(config, domains, **named)}


@pytest.mark.parametrize(
    ("backend", "parameter"),
    [
        ("onnxruntime", "intra_op_thread_count"),
        ("openvino", "INFERENCE_NUM_THREADS"),
        ("pytorch", "INTRA_OP_THREAD_COUNT"),
        ("tensorflow", "TF_NUM_INTRA_THREADS"),
        ("fil", "cpu_nthread"),
    ],
)
def test_threads_are_set_by_the_parameter_of_the_backend(backend, parameter):
    assert f"parameters.{parameter}" in searched(f'backend: "{backend}" {GROUP}')


def test_a_model_with_batches_has_all_of_them_searched():
    assert searched('max_batch_size: 8 backend: "onnxruntime" dynamic_batching { }') == {
        "instance_group.count": 2,
        "max_batch_size": 2,
        "dynamic_batching.max_queue_delay_microseconds": 2,
        "parameters.intra_op_thread_count": 2,
        "parameters.ray_num_gpus": 2,
    }


def test_a_model_without_batches_keeps_having_none():
    assert searched(f'backend: "python" {GROUP}') == {"instance_group.count": 2}


def test_a_model_without_a_batcher_gets_one():
    domains = Domains((1,), (1, 4))
    assert "dynamic_batching" in searched('max_batch_size: 8 backend: "python"', domains)


def test_a_sequence_model_keeps_its_batcher():
    text = f'max_batch_size: 8 backend: "python" sequence_batching {{ }} {GROUP}'
    assert searched(text) == {"instance_group.count": 2, "max_batch_size": 2}


def test_an_ensemble_has_nothing_of_its_own():
    assert searched('platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }') == {}


def test_instances_of_an_autoscaled_model_are_the_autoscalers():
    text = f"""backend: "python" {GROUP}
    parameters {{ key: "autoscaling.max_instances" value {{ string_value: "4" }} }}"""
    assert searched(text) == {}
    notes = " ".join(automatic.notes(config_of("m", text), ALL))
    assert "autoscaled" in notes
    assert "threads are not searched" in notes


def test_a_model_on_cpus_alone_has_no_part_of_a_gpu():
    found = searched('backend: "onnxruntime"', is_cpu_only=True)
    assert found["instance_group.kind"] == 1
    assert "parameters.ray_num_gpus" not in found


def test_domains_include_their_ends():
    assert powers_of_two(1, 128) == (1, 2, 4, 8, 16, 32, 64, 128)
    assert powers_of_two(3, 20) == (4, 8, 16)
    assert powers_of_two(5, 7) == (5,)
    assert numbers(1, 5, 2) == (1, 3, 5)


def test_a_list_of_lists_sweeps_what_is_a_list_in_the_config():
    (groups,) = manual.dimensions(
        "m", {"instance_group": [[{"kind": "KIND_GPU", "count": 1}], [{"kind": "KIND_CPU"}]]}
    )
    assert groups.choices == (
        (("instance_group.0.kind", "KIND_GPU"), ("instance_group.0.count", 1)),
        (("instance_group.0.kind", "KIND_CPU"),),
    )
    (sizes,) = manual.dimensions("m", {"dynamic_batching": {"preferred_batch_size": [[4, 8], [2]]}})
    assert [len(each) for each in sizes.choices] == [2, 1]


def test_a_plain_list_is_the_value_of_what_is_a_list():
    (sizes,) = manual.dimensions("m", {"dynamic_batching": {"preferred_batch_size": [4, 8]}})
    assert len(sizes.choices) == 1


def test_parameters_of_frameworks_may_be_lists():
    found = manual.dimensions(
        "m", {"parameters": {"execution_mode": [0, 1], "x.y": {"string_value": ["a", "b"]}}}
    )
    assert {each.name: len(each.choices) for each in found} == {
        "parameters.execution_mode": 2, "parameters.x.y": 2}  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"max_batch_sise": 1}, "did you mean 'max_batch_size'"),
        ({"dynamic_batching": {"queue_delay": 1}}, "dynamic_batching.queue_delay"),
        ({"instance_group": 3}, "expected a list"),
        ({"parameters": 3}, "names with their values"),
        ({"max_batch_size": None}, "expected a number"),
    ],
)
def test_what_is_no_field_is_named(parameters, expected):
    with pytest.raises(InvalidArgumentError, match=expected):
        manual.dimensions("m", parameters)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_every_point_is_another_candidate(lengths):
    dimensions = tuple(of_values("m", f"f{i}", range(n)) for i, n in enumerate(lengths))
    space = Space(dimensions, {"m": Served()})
    candidates = {space.candidate(point) for point in space.points()}
    assert len(candidates) == space.size


@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 2))
def test_a_neighbour_differs_in_one_dimension_and_is_mutual(one, two, distance):
    space = Space((of_values("m", "a", range(4)), of_values("m", "b", range(5))), {"m": Served()})
    for at in space.neighbours((one, two), distance):
        assert abs(at[0] - one) + abs(at[1] - two) == distance
        assert (one, two) in space.neighbours(at, distance)


def test_an_ensemble_takes_the_smallest_batch_of_its_steps():
    served = {
        "a": Served(8), "b": Served(4), "e": Served(8, composing=("a", "b"), is_ensemble=True)
    }  # fmt: skip
    space = Space((of_values("a", "max_batch_size", (2, 16)),), served)
    sizes = [space.max_batch_size(space.candidate(point), "e") for point in space.points()]
    assert sizes == [2, 4]


def test_instances_are_counted_over_all_groups():
    space = Space(
        (of_values("m", "instance_group.count", (3,)),), {"m": Served(instances=5, groups=2)}
    )
    assert space.instances(space.candidate((0,)), "m") == 6
    assert space.instances(space.default(), "m") == 5
