# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of who may ask; see `docs/access.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options.flag import declared as _flag
from cluster.options.starting import StartOptions

ACCESS: Final = "Access"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions(StartOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    access_policy: str = _flag(
        "",
        ACCESS,
        "YAML file that says who may ask what, read on each node with an ingress and again when it"
        " changes; empty: everybody may ask everything.",
    )
