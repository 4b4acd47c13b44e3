# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a user lists of a model's config: ``model_config_parameters`` as dimensions.

A list is a sweep, but for a field that is a list in the config itself: that takes a list of lists,
and a plain list is its value.

Triton: model_analyzer/docs/config.md "<model-config-parameters>",
model_analyzer/config/generate/generator_utils.py @63a0fec
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import empty_config, to_message
from manta_tools.analyze.space.dimensions import Choice, Dimension
from manta_tools.analyze.space.fields import PARAMETERS, descend, parameter_name

_PARAMETERS: Final = PARAMETERS.rstrip(".")


def dimensions(model: str, parameters: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """Return a dimension for each key of ``model_config_parameters``.

    Raises:
        InvalidArgumentError: A key is no field of a config, or has a value that none has.
    """
    descriptor = to_message(empty_config(model)).DESCRIPTOR
    found: list[Dimension] = []
    for key, node in parameters.items():
        if key == _PARAMETERS:
            found += _of_parameters(model, node)
        else:
            choices = tuple(_expand(descriptor, key, key, node))
            found.append(Dimension(model, key, tuple(dict.fromkeys(choices))))
    return tuple(found)


def _of_parameters(model: str, node: Any) -> Iterator[Dimension]:
    """Yield a dimension for each parameter; each may be a text, a list, or a ``string_value``."""
    if not isinstance(node, Mapping):
        raise InvalidArgumentError(
            f"'parameters' in the model_config_parameters of model '{model}' got {node!r}, "
            "expected names with their values"
        )
    for name, given in node.items():
        value = given.get("string_value") if isinstance(given, Mapping) else given
        field = PARAMETERS + parameter_name(str(name))
        values = value if isinstance(value, list) else [value]
        yield Dimension(model, field, tuple(((field, _scalar(field, each)),) for each in values))


def _expand(descriptor: Any, name: str, path: str, node: Any) -> list[Choice]:
    """Return the choices that a value of a field stands for."""
    field = descend(descriptor, name, path)
    if field.is_repeated:
        is_sweep = isinstance(node, list) and bool(node) and isinstance(node[0], list)
        rows = node if is_sweep else [node]
        return [choice for row in rows for choice in _expand_list(field, path, row)]
    rows = node if isinstance(node, list) else [node]
    return [choice for row in rows for choice in _expand_one(field, path, row)]


def _expand_one(field: Any, path: str, node: Any) -> list[Choice]:
    if field.message_type is None or not isinstance(node, Mapping):
        return [((path, _scalar(path, node)),)]
    if not node:
        return [((path, True),)]
    parts = [
        _expand(field.message_type, str(key), f"{path}.{key}", value) for key, value in node.items()
    ]
    return _combined(parts)


def _expand_list(field: Any, path: str, rows: Any) -> list[Choice]:
    if not isinstance(rows, list) or not rows:
        raise InvalidArgumentError(f"field '{path}' got {rows!r}, expected a list with elements")
    return _combined([_expand_one(field, f"{path}.{i}", row) for i, row in enumerate(rows)])


def _combined(parts: list[list[Choice]]) -> list[Choice]:
    return [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]


def _scalar(path: str, value: Any) -> Any:
    if isinstance(value, int | float | str | bool):
        return value
    raise InvalidArgumentError(
        f"field '{path}' got {value!r}, expected a number, a text, true or false, or a list of them"
    )
