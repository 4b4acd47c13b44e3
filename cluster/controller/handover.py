# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller leaves in the cluster for one of another release.

It is in the key-value store too, so that a server is not lost whose new controller cannot start:
whoever comes next starts a controller with it.
"""

import pickle
from dataclasses import dataclass, field

from backends.api.evolving import evolves
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions
from deployments.contracts.protocols import Told


@dataclass(frozen=True, slots=True)
class Handover:
    """What a successor is started with.

    Attributes:
        release: The release that leaves it.
        owner: Whom the server belongs to.
        protocols: The contracts that the release speaks.
    """

    release: str
    options: ServerOptions
    owner: Owner
    protocols: Told = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return what `decode_handover` reads, in any release."""
        return pickle.dumps(self)


def decode_handover(data: bytes) -> Handover:
    """Read what a controller has left."""
    handover: Handover = pickle.loads(data)  # noqa: S301 - of the cluster's own store
    return handover


evolves(Handover)
