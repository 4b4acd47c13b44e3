# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which models were measured together and what was wanted of them, as a checkpoint keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import from_json, to_json
from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.objectives import Bound, Goal, Judge
from manta_tools.analyze.records import Measured
from manta_tools.analyze.results.rows import Found
from manta_tools.analyze.space.variants import VariantNames

_CONFIGS, _GROUPS, _COMPOSING, _FACTS = "configs", "groups", "composing", "facts"


@dataclass(frozen=True, slots=True)
class Noted:
    """What was found in one analysis.

    Attributes:
        found: What was found of each group of models.
        facts: What was searched and how it was measured, for reports.
    """

    found: tuple[Found, ...]
    facts: tuple[tuple[str, str], ...]


def note_groups(
    checkpoint: Checkpoint,
    judges: Sequence[Judge],
    composing: Mapping[str, Sequence[str]],
    facts: Sequence[tuple[str, str]],
) -> None:
    """Keep what is wanted of groups of models beside their measurements."""
    checkpoint.note(_GROUPS, [_group(each) for each in judges])
    checkpoint.note(_COMPOSING, {model: list(called) for model, called in composing.items()})
    checkpoint.note(_FACTS, [list(each) for each in facts])


def configs_as_json(configs: Mapping[str, Any]) -> dict[str, str]:
    """Return configs as the setup of a checkpoint keeps them."""
    return {model: to_json(config).decode() for model, config in sorted(configs.items())}


def read_noted(checkpoint: Checkpoint) -> Noted:
    """Return what a checkpoint has of an analysis.

    Raises:
        InvalidArgumentError: It was stopped before anything was searched.
    """
    missing = {_GROUPS, _COMPOSING, _FACTS} - checkpoint.facts.keys()
    if missing or not checkpoint.measured:
        raise InvalidArgumentError(
            f"checkpoint '{checkpoint.path}' holds no measurement, expected one of 'manta analyze "
            "profile' that has measured something; run that again"
        )
    configs = {model: from_json(text) for model, text in checkpoint.setup[_CONFIGS].items()}
    composing = {model: tuple(called) for model, called in checkpoint.facts[_COMPOSING].items()}
    names = VariantNames(composing)
    # In the order of the file, so that what is measured later changes no name.
    for measured in checkpoint.measured:
        names.names(measured.trial.candidate)
    found = []
    for tree in checkpoint.facts[_GROUPS]:
        judge = _judge(tree)
        models = tuple(goal.model for goal in judge.goals)
        found.append(
            Found(models, judge, _of(models, checkpoint.measured), configs, composing, names)
        )
    facts = tuple((name, text) for name, text in checkpoint.facts[_FACTS])
    return Noted(tuple(found), facts)


def _of(models: Sequence[str], measured: Sequence[Measured]) -> tuple[Measured, ...]:
    return tuple(
        each
        for each in measured
        if sorted(load.model for load in each.trial.loads) == sorted(models)
    )


def _group(judge: Judge) -> dict[str, Any]:
    return {
        "price": judge.price_per_node_hour,
        "nodes": judge.nodes,
        "goals": [
            {
                "model": goal.model,
                "objectives": [list(each) for each in goal.objectives],
                "constraints": [[each.tag, each.side, each.limit] for each in goal.constraints],
                "weighting": goal.weighting,
            }
            for goal in judge.goals
        ],
    }


def _judge(tree: Mapping[str, Any]) -> Judge:
    goals = tuple(
        Goal(
            goal["model"],
            tuple((tag, weight) for tag, weight in goal["objectives"]),
            tuple(Bound(*each) for each in goal["constraints"]),
            goal["weighting"],
        )
        for goal in tree["goals"]
    )
    return Judge(goals, tree["price"], tree["nodes"])
