# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The hook of ``ray start``: ``RAY_START_HOOK=manta.fork_server.begin`` has workers forked."""

from cluster.fork_server.joined import begin

__all__ = ["begin"]
