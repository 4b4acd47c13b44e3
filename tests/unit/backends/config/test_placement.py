# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``placement.*`` parameters of a config."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.placement import (
    DOMAINS,
    BundleStrategy,
    PlacementRules,
    Strategy,
    read_placement,
    read_priority,
)
from backends.config.validation.model import validate


def config_with(more: str = "", **parameters: str) -> ModelConfig:
    rows = " ".join(
        f'parameters {{ key: "placement.{key}" value {{ string_value: "{text}" }} }}'
        for key, text in ((key, value.replace('"', '\\"')) for key, value in parameters.items())
    )
    return parse_pbtxt(f'name: "m" backend: "identity" {more} {rows}', "p")


def complaint(**parameters: str) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        read_placement(config_with(**parameters))
    return caught.value.message


def test_a_model_without_parameters_spreads_over_regions_zones_and_nodes() -> None:
    rules = read_placement(config_with())
    assert rules == PlacementRules()
    assert (rules.strategy, rules.spread_over) == (Strategy.SPREAD, DOMAINS)


def test_every_parameter_is_read() -> None:
    config = config_with(
        strategy="pack",
        spread_over="rack, ray.io/node-group",
        labels='{"ray.io/accelerator-type": "!in(A100, H100)", "spot": "!true"}',
        priority="-3",
        bundles='[{"GPU": 8, "CPU": 1}, {"GPU": 8}]',
        bundle_strategy="STRICT_SPREAD",
    )
    assert read_placement(config) == PlacementRules(
        strategy=Strategy.PACK,
        spread_over=("rack", "ray.io/node-group"),
        labels={"ray.io/accelerator-type": "!in(A100, H100)", "spot": "!true"},
        priority=-3,
        bundles=({"GPU": 8.0, "CPU": 1.0}, {"GPU": 8.0}),
        bundle_strategy=BundleStrategy.STRICT_SPREAD,
    )


def test_nodes_are_named_with_commas_between() -> None:
    assert read_placement(config_with(nodes="10.0.0.5, gpu-7")).nodes == ("10.0.0.5", "gpu-7")


def test_a_priority_can_be_read_alone() -> None:
    assert [read_priority(config_with(**given)) for given in ({}, {"priority": "-3"})] == [0, -3]


def test_bundles_are_not_pinned_to_nodes() -> None:
    assert "give the nodes a label" in complaint(nodes="a", bundles='[{"GPU": 1}]')


def test_to_spread_over_nodes_only_no_label_is_named() -> None:
    assert read_placement(config_with(spread_over="")).spread_over == ()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"strategy": "scatter"}, "'spread' or 'pack'"),
        ({"spread_over": "a,,b"}, "keys of node labels"),
        ({"labels": "zone=a"}, "a JSON object of Ray's label conditions"),
        ({"labels": "{}"}, "a JSON object of Ray's label conditions"),
        ({"labels": '{"zone": ""}'}, "a JSON object of Ray's label conditions"),
        ({"labels": '{"zone": "in()"}'}, "a JSON object of Ray's label conditions"),
        ({"labels": '{"zone": 1}'}, "a JSON object of Ray's label conditions"),
        ({"nodes": "a,,b"}, "addresses, host names or ids of nodes"),
        ({"priority": "high"}, "a whole number"),
        ({"bundles": "[]"}, "a JSON list of objects of resources"),
        ({"bundles": '[{"GPU": 0}]'}, "a JSON list of objects of resources"),
        ({"bundles": '[{"GPU": true}]'}, "a JSON list of objects of resources"),
        ({"bundles": "[{}]"}, "a JSON list of objects of resources"),
        ({"bundles": '[{"GPU": 1}]', "bundle_strategy": "TIGHT"}, "one of 'STRICT_PACK', "),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_was_expected(
    parameters: dict[str, str], expected: str
) -> None:
    text = complaint(**parameters)
    assert text.startswith("model 'm' has parameter 'placement.")
    assert f"expected {expected}" in text


def test_an_unknown_parameter_is_refused_with_those_there_are() -> None:
    text = complaint(zone="a")
    assert "unknown parameter 'placement.zone', expected one of: placement.bundle_strategy," in text


def test_a_bundle_strategy_needs_bundles() -> None:
    assert "without 'placement.bundles'" in complaint(bundle_strategy="PACK")


def test_a_load_refuses_what_is_malformed() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'placement\.priority' with value 'high'"):
        validate(normalise(config_with(priority="high"), gpu_ids=()), gpu_ids=())


def test_an_ensemble_has_no_instances_to_place() -> None:
    config = config_with("ensemble_scheduling { }", strategy="pack")
    with pytest.raises(InvalidArgumentError, match="an ensemble has no instances"):
        read_placement(config)
