# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which argument or result of a model a name in its config stands for.

Triton: pytorch_backend/src/pt/model_instance_state.cc GetNamingConvention, AddInputToMap,
ValidateInputs, ValidateOutputs
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig

logger = logging.getLogger(__name__)

_NO_NAMES: Mapping[str, int] = {}


class _Convention(Enum):
    NAME = "names of the model"
    INDEX = "<name>__<index>"
    ORDER = "order in the config"


def index_of(name: str) -> int | None:
    """Return the number behind the first ``__``; None when there is none."""
    digits = name.partition("__")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def input_places(
    config: ModelConfig, names: Mapping[str, int], count: int, *, names_all: bool = False
) -> dict[str, int]:
    """Return which argument each input of a config is, those that the scheduler feeds among them.

    Args:
        config: The config.
        names: Arguments by their names.
        count: How many arguments there are.
        names_all: Whether controls and states go by these names too, and not by an index only.

    Raises:
        InternalError: The config has no inputs, or a control's name has no index.
        InvalidArgumentError: A state's name has none, or inputs are not one for each argument.
    """
    given = [each.name for each in config.input]
    convention = _convention(config, given, names, "input")
    places = _by(convention, given, names)
    targets = [name for rule in config.batch_input for name in rule.target_names]
    places |= _by(convention, targets, names, first=len(given))
    sequences = config.sequence_batching
    if sequences is not None:
        known = names if names_all else _NO_NAMES
        for control in sequences.controls:
            place = known.get(control.name)
            places[control.name] = _control_index(control.name) if place is None else place
        states = [state.input_name for state in sequences.states]
        places |= _state_places(config, convention, states, known)
    if sorted(places.values()) != list(range(count)):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', its inputs stand for the arguments "
            f"{_listed(places)}, expected each of 0 to {count - 1} once"
        )
    return places


def output_places(config: ModelConfig, names: Mapping[str, int] = _NO_NAMES) -> dict[str, int]:
    """Return which result each output and state of a config is.

    Args:
        config: The config.
        names: Results by their names, where they have some; those of states, too.

    Raises:
        InternalError: The config has no outputs.
        InvalidArgumentError: A state's name has no index.
    """
    made = [each.name for each in config.output]
    convention = _convention(config, made, names, "output")
    places = _by(convention, made, names)
    sequences = config.sequence_batching
    if sequences is not None:
        states = [state.output_name for state in sequences.states]
        places |= _state_places(config, convention, states, names)
    return places


def in_order(places: Mapping[str, int]) -> list[str]:
    """Return names by the arguments that they stand for."""
    return sorted(places, key=places.__getitem__)


def _convention(
    config: ModelConfig, given: Sequence[str], names: Mapping[str, int], direction: str
) -> _Convention:
    if not given:
        raise InternalError(
            f"model configuration must contain at least one {direction}, none were specified."
        )
    if names and all(name in names for name in given):
        return _Convention.NAME
    other = next((name for name in given if index_of(name) is None), None)
    if other is None:
        return _Convention.INDEX
    if "__" in other:
        logger.warning(
            "input '%s' or previous input(s) are neither an input argument to the model '%s' nor "
            "do they follow the <name>__<index> naming convention. Falling back to enforcing "
            "strict ordering from model configuration."
            if direction == "input"
            else "output '%s' or previous output(s) of the model '%s' do not follow the "
            "<name>__<index> naming convention. Falling back to enforcing strict ordering from "
            "model configuration.",
            other,
            config.name,
        )
    return _Convention.ORDER


def _by(
    convention: _Convention, given: Iterable[str], names: Mapping[str, int], first: int = 0
) -> dict[str, int]:
    if convention is _Convention.NAME:
        return {name: names.get(name, -1) for name in given}
    if convention is _Convention.ORDER:
        return {name: place for place, name in enumerate(given, first)}
    return {name: -1 if (found := index_of(name)) is None else found for name in given}


def _control_index(name: str) -> int:
    found = index_of(name)
    if found is None:
        raise InternalError(f"input '{name}' does not follow <name>__<index> naming convention.")
    return found


def _state_places(
    config: ModelConfig, convention: _Convention, states: Sequence[str], names: Mapping[str, int]
) -> dict[str, int]:
    if all(state in names for state in states):
        return {state: names[state] for state in states}
    refusal = f"PyTorch model '{config.name}' is using sequence batching with state but "
    rule = "follow the <name>__<index> naming convention. "
    if convention is not _Convention.INDEX:
        raise InvalidArgumentError(f"{refusal}not all inputs and outputs {rule}")
    for state in states:
        if index_of(state) is None:
            raise InvalidArgumentError(f"{refusal}state '{state}' does not {rule}")
    return _by(_Convention.INDEX, states, names)


def _listed(places: Mapping[str, int]) -> str:
    return ", ".join(f"{place} ('{name}')" for name, place in places.items())
