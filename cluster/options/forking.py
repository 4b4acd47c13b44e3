# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of the process that workers are forked from; see ADR 22."""

from dataclasses import dataclass
from typing import Final

from cluster.options import values
from cluster.options.flag import declared as _flag
from cluster.options.starting import StartOptions

FORKING: Final = "Fork Server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions(StartOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    no_fork_server: bool = _flag(
        False,
        FORKING,
        "Start every process of a Ray of Manta's own by itself, not forked from one that has"
        " imported what it needs.",
        takes_value=False,
    )
    fork_server_preload: str = _flag(
        "",
        FORKING,
        "Modules that models import, separated by commas: processes are forked from one that has"
        " imported them too. One that cannot be imported, starts threads or opens a GPU is left"
        " out, which is said.",
        values.module_names("fork-server-preload"),
    )
