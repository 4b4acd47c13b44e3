# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The class that Serve starts replicas of, which finds the ingress of its own release.

Serve's processes have the folders in their search path that whoever started Serve had: of another
release, perhaps. So this class travels as it is rather than by its name, and nothing of Manta is
imported before it has put its release's folder first: neither here, nor by who deploys it, which
has no use for an ingress itself.
"""

import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any, Final

# What all packages of this release are in, or one of those in a checkout.
_PACKAGE: Final = __name__.partition(".")[0]


class Ingress:
    """A replica.

    Args:
        root: The folder with the packages of the replica's release, if it is there on its node;
            else they are found as Serve's environment for it says.
        pickled: Of the ingress's arguments.
    """

    async def __init__(self, root: str, pickled: bytes) -> None:  # type: ignore[misc]  # Serve awaits it
        # None until the ingress is made: Serve ends also replicas that could not start.
        self._ingress: Any = None
        _put_first(root)
        from deployments.ingress import Ingress as Own  # noqa: PLC0415 - see above

        ingress: Any = Own.__new__(Own)
        # A part of what Ray has unpickled.
        await ingress.__init__(*pickle.loads(pickled))  # noqa: S301
        self._ingress = ingress

    async def check_health(self) -> None:
        """Fail when the ingress asks to be replaced."""
        await self._ingress.check_health()

    async def __del__(self) -> None:
        if self._ingress is not None:
            await self._ingress.drain()


def _put_first(root: str) -> None:
    found = importlib.util.find_spec(_PACKAGE)
    is_first = found is not None and Path(str(found.origin)).parents[1] == Path(root)
    if not is_first and Path(root, _PACKAGE).is_dir():
        sys.path.insert(0, root)
        importlib.invalidate_caches()
