# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m manta``: the same as the command ``manta``."""

from cluster.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
