# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of what an application on Serve waits for; see `docs/kubernetes-server.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options import values
from cluster.options.flag import declared as _flag
from cluster.options.nodes import NodeOptions
from deployments.settings.wait_for_models import WaitForModels

STARTING: Final = "Starting"
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions(NodeOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    wait_for_models: str = _flag(
        AUTO,
        STARTING,
        "What an application on Serve waits for before it is RUNNING: all, until every start-up"
        " model is ready; attempted, until each was tried; none. auto: all, or attempted with"
        " --exit-on-error=false. 'manta serve' waits itself.",
        values.choice("invalid argument for --wait-for-models", AUTO, *WaitForModels),
    )
