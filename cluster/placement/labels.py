# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a node's labels meet a selector, as Ray decides it. Pure.

Ray: src/ray/common/scheduling/label_selector.cc, python/ray/_private/label_utils.py
"""

import re
from collections.abc import Mapping
from typing import Final

_CONDITION: Final = re.compile(r"(?P<negation>!?)(?:in\((?P<several>.*)\)|(?P<one>.*))")


def unmet(selector: Mapping[str, str], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the conditions that labels do not meet, as ``key=condition``; mostly none.

    Args:
        selector: Conditions by key: ``v``, ``!v``, ``in(v,w)`` or ``!in(v,w)``. A label that a node
            does not have is none of any values.
        labels: The node's.
    """
    return tuple(
        f"{key}={condition}"
        for key, condition in selector.items()
        if not _is_met(condition, labels.get(key))
    )


def _is_met(condition: str, value: str | None) -> bool:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        return False
    several = match["several"]
    values = {match["one"]} if several is None else {each.strip() for each in several.split(",")}
    return (value in values) is not bool(match["negation"])
