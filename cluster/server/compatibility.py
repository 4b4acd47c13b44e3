# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether this release can take over from the one that runs, or runs beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import UnsupportedError
from cluster.release import own_release
from deployments.contracts.protocols import Told, mismatches

_UNKNOWN: Final = "a release that cannot be upgraded while it runs"


@dataclass(frozen=True, slots=True)
class ToldRelease:
    """What a running server says of its release.

    Attributes:
        name: Version and digest; empty of a release from before they were told.
        protocols: The contracts that it speaks.
    """

    name: str = ""
    protocols: Told = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether it is the release of this process."""
        return self.name == str(own_release())

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ToldRelease":
        """Read what `ModelController.release` has returned, of whatever release it is."""
        protocols = {name: (first, last) for name, (first, last) in answer["protocols"].items()}
        return cls(answer["release"], protocols)


def require_compatible(theirs: ToldRelease) -> None:
    """Make sure that processes of both releases can work together.

    Raises:
        UnsupportedError: They cannot; nothing has been changed.
    """
    faults = mismatches(theirs.protocols) if theirs.name else ("it does not say what it speaks",)
    if faults:
        raise UnsupportedError(
            f"release {own_release()} cannot take over from {theirs.name or _UNKNOWN}: "
            + "; ".join(faults)
            + ". Upgrade to a release between the two first, or stop the server and start it anew"
        )
