# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which ensembles are made of which models. Pure."""

from collections.abc import Mapping


def dependents_of(name: str, composing: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the ensembles that have the model among their steps, sorted."""
    return tuple(sorted(ensemble for ensemble, parts in composing.items() if name in parts))


def find_cycle(start: str, composing: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return a path of ensembles from ``start`` back to itself; empty when there is none."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for part in sorted(composing.get(path[-1], frozenset())):
            if part == start:
                return (*path, start)
            if part not in seen:
                seen.add(part)
                paths.append((*path, part))
    return ()
