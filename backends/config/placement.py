# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``placement.*`` parameters of a model: on which nodes its instances may be, and how spread.

Triton has no such thing: its instances are on the one machine there is. Label selectors are
written as Ray writes them.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.parameter_family import FamilyParameter, ParameterFamily

PREFIX: Final = "placement."
_NODES: Final = f"{PREFIX}nodes"
_PRIORITY: Final = f"{PREFIX}priority"
_BUNDLES: Final = f"{PREFIX}bundles"
_BUNDLE_STRATEGY: Final = f"{PREFIX}bundle_strategy"
# From the largest to the smallest; the node itself comes last and needs no label.
DOMAINS: Final = ("ray.io/region", "ray.io/availability-zone")

_NAME: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_LABEL_KEY: Final = re.compile(rf"(?:[a-z0-9A-Z.-]{{1,253}}/)?{_NAME}")
_CONDITION: Final = re.compile(rf"!?(?:{_NAME}|in\({_NAME}(?:, ?{_NAME})*\))")
_MOST_BUNDLES: Final = 1000


class Strategy(StrEnum):
    """What an instance prefers among the nodes that have room; the values are the parameter's."""

    SPREAD = "spread"
    PACK = "pack"


class BundleStrategy(StrEnum):
    """Ray's strategies of placement groups."""

    STRICT_PACK = "STRICT_PACK"
    STRICT_SPREAD = "STRICT_SPREAD"
    PACK = "PACK"
    SPREAD = "SPREAD"


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Where the instances of one model may be, and where they rather are.

    Attributes:
        strategy: Whether the instances of a version keep away from each other, or keep together.
        spread_over: Keys of the node labels by which they do so, before they do by node.
        labels: Ray's label selector, which a node has to meet.
        nodes: The only nodes there are for it, by address, host name or Ray's id; empty for all.
        priority: Who has a higher one may displace idle instances of this model.
        bundles: What each instance reserves at once, by resource: a bundle lies on one node. Empty
            for what instances reserve anyway.
        bundle_strategy: Whether bundles lie on one node or on several.
    """

    strategy: Strategy = Strategy.SPREAD
    spread_over: tuple[str, ...] = DOMAINS
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    priority: int = 0
    bundles: tuple[Mapping[str, float], ...] = ()
    bundle_strategy: BundleStrategy = BundleStrategy.STRICT_PACK


def read_label_selector(text: str) -> Mapping[str, str]:
    """Read Ray's conditions on the labels of a node, by key, from a JSON object.

    Raises:
        ValueError: It is none, it is empty, or a key or a condition is not in Ray's syntax.
    """
    labels = json.loads(text)
    if not isinstance(labels, dict) or not labels:
        raise ValueError(text)
    for key, condition in labels.items():
        is_text = isinstance(condition, str)
        if not (is_text and _LABEL_KEY.fullmatch(key) and _CONDITION.fullmatch(condition)):
            raise ValueError(key)
    return dict(labels)


def _read_keys(text: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(",")) if text.strip() else ()
    if not all(map(_LABEL_KEY.fullmatch, keys)):
        raise ValueError(text)
    return keys


def _read_nodes(text: str) -> tuple[str, ...]:
    nodes = tuple(name.strip() for name in text.split(","))
    if not all(nodes):
        raise ValueError(text)
    return nodes


def _read_bundles(text: str) -> tuple[Mapping[str, float], ...]:
    rows = json.loads(text)
    if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_BUNDLES:
        raise ValueError(text)
    return tuple(map(_read_bundle, rows))


def _read_bundle(row: Any) -> Mapping[str, float]:
    if not isinstance(row, dict) or not row:
        raise ValueError(row)
    amounts = {}
    for name, amount in row.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not (name and is_number and 0 < amount < math.inf):
            raise ValueError(row)
        amounts[name] = float(amount)
    return amounts


_PARAMETERS: Final[Mapping[str, FamilyParameter]] = {
    f"{PREFIX}strategy": FamilyParameter(Strategy, "'spread' or 'pack'"),
    f"{PREFIX}spread_over": FamilyParameter(
        _read_keys, "keys of node labels with commas between, the largest domain first"
    ),
    f"{PREFIX}labels": FamilyParameter(
        read_label_selector,
        'a JSON object of Ray\'s label conditions, for example {"ray.io/accelerator-type":'
        ' "in(H100,A100)", "spot": "!true"}',
    ),
    _NODES: FamilyParameter(
        _read_nodes, "addresses, host names or ids of nodes with commas between"
    ),
    _PRIORITY: FamilyParameter(int, "a whole number"),
    _BUNDLES: FamilyParameter(
        _read_bundles,
        'a JSON list of objects of resources, for example [{"GPU": 8}, {"GPU": 8}]',
    ),
    _BUNDLE_STRATEGY: FamilyParameter(
        BundleStrategy, "one of " + ", ".join(f"'{each}'" for each in BundleStrategy)
    ),
}
_FAMILY: Final = ParameterFamily(PREFIX, _PARAMETERS)


def read_placement(config: ModelConfig) -> PlacementRules:
    """Return the rules a config has; the defaults for what it does not say.

    Raises:
        InvalidArgumentError: A parameter is unknown or malformed, or fits no other.
    """
    given = _FAMILY.given(config.parameters)
    if not given:
        return _NO_RULES
    for complaint in _complaints(config.name, given, is_ensemble=config.has_ensemble_scheduling):
        raise InvalidArgumentError(complaint)
    return PlacementRules(**_FAMILY.values(given))


def read_priority(config: ModelConfig) -> int:
    """Return the priority alone, of a config that is right otherwise: it is asked for often."""
    text = config.parameters.get(_PRIORITY)
    return 0 if text is None else int(text)


_NO_RULES: Final = PlacementRules()


def placement_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with the ``placement.*`` parameters of an `inference.ModelConfig`."""
    given = _FAMILY.given_in(message)
    is_ensemble = message.HasField("ensemble_scheduling")
    yield from _complaints(message.name, given, is_ensemble=is_ensemble)


def _complaints(name: str, given: Mapping[str, str], *, is_ensemble: bool) -> Iterator[str]:
    yield from _FAMILY.complaints(name, given, is_ensemble=is_ensemble)
    if is_ensemble:
        return
    if _BUNDLE_STRATEGY in given and _BUNDLES not in given:
        yield (
            f"model '{name}' has parameter '{_BUNDLE_STRATEGY}' without '{_BUNDLES}', expected what"
            " each bundle reserves"
        )
    if _BUNDLES in given and _NODES in given:
        yield (
            f"model '{name}' has parameter '{_NODES}' with '{_BUNDLES}', which are placed by labels"
            f" only; give the nodes a label, and '{PREFIX}labels' in its place"
        )
