# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta upgrade``: puts the release that the command is of in the place of the one that runs."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from backends.api.errors import TritonError

if TYPE_CHECKING:
    from cluster.server.upgrade import RunningServer, Standing

_DESCRIPTION: Final = """Upgrade the server that runs on a Ray cluster to the release that this
command is of, while it serves. The controller is replaced, then the instances one by one, then the
ingresses. Run again, it goes on where it was stopped; run from the release before, it goes back."""
_BACK: Final = (
    "what serves goes on; run 'manta upgrade' again, or that of the other release to go back"
)


def rendered(found: "Standing") -> Iterator[str]:
    """Yield the lines of ``--status``, for people."""
    renewal = found.renewal
    yield f"controller: release {found.controller}"
    yield f"ingresses: release {found.ingress or 'unknown'}"
    for release, count in sorted(renewal["instances"].items()):
        yield f"instances of release {release or 'unknown'}: {count}"
    yield f"instances: {renewal['phase']}, {renewal['done']} replaced, {renewal['left']} left"
    if renewal["current"]:
        yield f"being replaced: {renewal['current']}"
    if renewal["reason"]:
        yield f"reason: {renewal['reason']}"


def _say(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str], make_server: "Callable[[], RunningServer] | None" = None) -> int:
    """Run ``manta upgrade`` and return its exit code: 1 when it has stopped."""
    parser = argparse.ArgumentParser(
        prog="manta upgrade", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "--ray-address", default="auto", help="of the cluster; this machine's by default"
    )
    parser.add_argument("--status", action="store_true", help="say how far it is, and do nothing")
    parser.add_argument("--json", action="store_true", help="print the status as JSON")
    given = parser.parse_args(arguments)
    # They import Ray, which takes seconds; help should not.
    from ray.exceptions import RayError  # noqa: PLC0415

    from cluster.actors.calls import cause_of  # noqa: PLC0415
    from cluster.actors.connection import connected  # noqa: PLC0415
    from cluster.server.upgrade import RunningServer, standing, upgrade  # noqa: PLC0415

    make_server = make_server or RunningServer
    try:
        with connected(given.ray_address):
            if not given.status:
                upgrade(make_server(), _say)
                return 0
            found = standing(make_server())
    except TritonError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    except RayError as error:
        print(
            f"error: the controller cannot be reached: {cause_of(error)}; {_BACK}", file=sys.stderr
        )
        return 1
    _say(json.dumps(found.as_row, indent=2) if given.json else "\n".join(rendered(found)))
    return 0
