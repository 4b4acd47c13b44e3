#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the state tables of the code as diagrams: writes docs/state-machines.md."""

from collections.abc import Iterable
from pathlib import Path

from cluster.controller.policies import POLICIES, REPOSITORIES
from cluster.models import operation as operations
from cluster.models import states as versions
from cluster.rollout import state as rollouts
from deployments.http2 import streams
from deployments.rate_limiter import arbiter
from deployments.routing import adoption_states
from deployments.scheduling import sequence_slots

PAGE = Path(__file__).resolve().parents[1] / "docs" / "state-machines.md"

Arrow = tuple[str, str, str]


def of_versions() -> Iterable[Arrow]:
    for state, events in versions.TRANSITIONS.items():
        yield from ((state.name, event.name, after.name) for event, after in events.items())


def of_rollouts() -> Iterable[Arrow]:
    for phase, events in rollouts.TRANSITIONS.items():
        yield from ((phase.name, event.name, after.name) for event, after in events.items())


def of_streams() -> Iterable[Arrow]:
    names = ("IDLE", "OPEN", "HALF_CLOSED_REMOTE", "HALF_CLOSED_LOCAL", "CLOSED")
    inputs = ("RECEIVE_HEADERS", "RECEIVE_HEADERS_END", "RECEIVE_DATA", "RECEIVE_DATA_END")
    inputs += ("SEND_END", "RESET")
    for name in names:
        row = streams.TRANSITIONS[getattr(streams, name)]
        for event in inputs:
            after = row[getattr(streams, event)]
            if after != streams.VIOLATION:
                yield name, event, names[after]


def of_sequences() -> Iterable[Arrow]:
    for (phase, event), after in sequence_slots._NEXT_PHASE.items():  # noqa: SLF001 - drawn, not used
        yield phase.name, event.name, after.name


def of_adoptions() -> Iterable[Arrow]:
    for state, events in adoption_states.TRANSITIONS.items():
        yield from ((state.name, event.name, after.name) for event, after in events.items())


def of_claims() -> Iterable[Arrow]:
    for (phase, event), after in arbiter._NEXT.items():  # noqa: SLF001 - drawn, not used
        yield phase.name, event.name, after.name
    # Not an event of one instance: the arbiter grants when resources become free.
    yield from (("ASKING", "granted", "HOLDING"), ("RESUMING", "granted", "HOLDING"))


MACHINES = (
    ("A model version", "cluster/models/states.py", of_versions),
    ("A rollout", "cluster/rollout/state.py", of_rollouts),
    ("An HTTP/2 stream", "deployments/http2/streams.py", of_streams),
    ("A sequence", "deployments/scheduling/sequence_slots.py", of_sequences),
    (
        "Who decides what an instance executes, as one router knows it",
        "deployments/routing/adoption_states.py",
        of_adoptions,
    ),
    ("An instance's claim on limited resources", "deployments/rate_limiter/arbiter.py", of_claims),
)


def diagram(arrows: Iterable[Arrow]) -> str:
    labels: dict[tuple[str, str], list[str]] = {}
    for state, event, after in arrows:
        labels.setdefault((state, after), []).append(event)
    lines = [f"    {a} --> {b}: {' / '.join(events)}" for (a, b), events in labels.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def of_operations() -> str:
    """Return the table of operations that meet, for people."""
    head = ["arriving", *operations.RUNNING]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arriving in operations.Kind:
        cells = [f"**{arriving}**"]
        for running in operations.RUNNING:
            works, waits = (
                operations.meeting(arriving, running, is_pending=is_pending)
                for is_pending in (False, True)
            )
            cells.append(works if works is waits else f"{works}; pending: {waits}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


OPERATIONS = """## What is done to a model version, and what else is

`cluster/models/operation.py`

What arrives (rows) while something else runs, or waits for its turn, on the same version (columns);
*pending* is what waits for room in the cluster. Loads and unloads are of all versions of a model,
the others of one. `rest` and `displace` are done at once.

"""


def of_policies() -> str:
    """Return the table of policies, for people."""
    lines = ["| policy | looks every | what it does |", "|---|---|---|"]
    for row in POLICIES:
        is_option = row.name == REPOSITORIES
        period = "`--repository-poll-secs`" if is_option else f"{row.period_s:g} s"
        lines.append(f"| **{row.name}** | {period} | {row.decides} |")
    return "\n".join(lines)


RECONCILER = """## What the controller does of its own accord

`cluster/controller/policies.py`

The policies of the reconciler in their order of precedence: in one pass those that are due look
in this order.

"""


def page() -> str:
    parts = [f"## {title}\n\n`{path}`\n\n{diagram(arrows())}\n" for title, path, arrows in MACHINES]
    parts.insert(1, OPERATIONS + of_operations() + "\n")
    parts.insert(2, RECONCILER + of_policies() + "\n")
    head = "# State machines\n\nDrawn by `scripts/state_diagrams.py` from the tables in the code.\n"
    return "\n".join([head, *parts])


if __name__ == "__main__":
    PAGE.write_text(page())
