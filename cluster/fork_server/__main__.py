# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the fork server; in its children this module is replaced by what they run."""

import sys

from cluster.fork_server.serving import main

if __name__ == "__main__":
    main(*sys.argv[1:])
