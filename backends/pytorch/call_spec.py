# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the tensors in a call that `torch.export` has recorded.

A call takes tuples, lists and dicts of tensors, one in the other, and gives such. Its tensors are
numbered as they come; a name says the way to one: ``ARGS[0]``, ``ARGS[2][key]``, ``KWARGS[k]``,
``RESULT``, ``RESULT[k][1]``.

Triton: pytorch_backend/src/pt2/call_spec.cc call_spec::get_names, io_data.hh
"""

from collections.abc import Sequence
from typing import Any

from torch.utils import _pytree as pytree

# Where a way's key stands, for each kind of step.
_KEYS = ("idx", "key", "name")
_ARGUMENTS = ("ARGS", "KWARGS")


def argument_ways(spec: Any) -> list[str]:
    """Return the way to each argument, given the `TreeSpec` of (args, kwargs)."""
    return [_ARGUMENTS[way[0]] + _brackets(way[1:]) for way in _ways(spec)]


def result_ways(spec: Any) -> list[str]:
    """Return the way to each result, given their `TreeSpec`."""
    return [f"RESULT{_brackets(way)}" for way in _ways(spec)]


def names_by_place(ways: Sequence[str], ordinal: str) -> dict[str, int]:
    """Return the place of each way, and of ``<ordinal>__<place>``."""
    places = {way: place for place, way in enumerate(ways)}
    return places | {f"{ordinal}__{place}": place for place in places.values()}


def top_level_keys(spec: Any) -> dict[str, int]:
    """Return the place of each tensor that is a value of the outermost dict; none without one."""
    return {
        str(way[0]): place
        for place, way in enumerate(_ways(spec))
        if spec.type is dict and len(way) == 1
    }


def _ways(spec: Any) -> list[tuple[Any, ...]]:
    tree = pytree.tree_unflatten([0] * spec.num_leaves, spec)
    return [tuple(map(_key, way)) for way, _ in pytree.tree_flatten_with_path(tree)[0]]


def _key(step: Any) -> Any:
    return next(getattr(step, key) for key in _KEYS if hasattr(step, key))


def _brackets(way: Sequence[Any]) -> str:
    return "".join(f"[{key}]" for key in way)
