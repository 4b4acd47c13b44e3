# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rooms whose code is mutated, and the mutants that are made of them."""

from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent


_UNIT: Final = "tests/unit"


@dataclass(frozen=True)
class Room:
    """A folder of sources, and the unit tests that can notice a mutant of them."""

    sources: str
    # Of the rooms that use this one, below tests/unit; those that mirror it are run in any case.
    others: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[str, ...]:
        """The test files and folders, relative to the root."""
        return tuple(f"{_UNIT}/{each}" for each in (self.sources, *self.others))

    def files(self, root: Path) -> list[str]:
        """Return the source files, relative to the root."""
        found = (root / self.sources).rglob("*.py")
        return sorted(str(each.relative_to(root)) for each in found)


# Some rules are claimed by the tests of who asks the room: a queue's by the nodes around it, a
# codec's by the front whose messages it writes.
ROOMS: Final = {
    "scheduling": Room("deployments/scheduling"),
    "pool_queue": Room(
        "deployments/pool_queue",
        (
            "deployments/routing/test_cluster_pools.py",
            "deployments/routing/test_cluster_sequences.py",
            "deployments/routing/test_emptied_nodes.py",
            "deployments/routing/test_holder_changes.py",
            "deployments/routing/test_holding.py",
            "deployments/routing/test_node_faults.py",
            "deployments/routing/test_node_pools.py",
        ),
    ),
    "ensembles": Room(
        "deployments/ensembles",
        (
            "deployments/data_plane/test_rollouts.py",
            "deployments/routing/test_router.py",
            "deployments/routing/test_served_models.py",
        ),
    ),
    "http_codec": Room("deployments/http/codec", ("deployments/http/kserve",)),
    "grpc_codec": Room("deployments/grpc/codec", ("deployments/grpc/kserve",)),
    "access": Room(
        "deployments/access",
        (
            "deployments/grpc/kserve/test_guarded.py",
            "deployments/http/kserve/test_guarded.py",
            "deployments/metrics/test_access.py",
        ),
    ),
    "rollouts": Room(
        "deployments/rollouts",
        (
            "deployments/data_plane/test_rollouts.py",
            "deployments/grpc/kserve/test_rollouts.py",
            "deployments/http/kserve/test_rollouts.py",
        ),
    ),
    "placement": Room("cluster/placement"),
    "models": Room("cluster/models", ("cluster/controller", "cluster/residency")),
}


@dataclass(frozen=True)
class Mutant:
    """A function of a source file with one change."""

    file: str
    # As its code object has them; a function is found by both.
    function: str
    first_line: int
    # The original's lines that the change is on: tests that run one of them can notice.
    lines: tuple[int, int]
    # The changed lines, before and after.
    change: str
    # The whole file with the change.
    source: str


def code_of(source: str, file: str, function: str, first_line: int) -> CodeType | None:
    """Compile a function of a source; absent if there is none of that name on that line."""
    found = [compile(source, file, "exec", dont_inherit=True)]
    while found:
        code = found.pop()
        if (code.co_qualname, code.co_firstlineno) == (function, first_line):
            return code
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None
