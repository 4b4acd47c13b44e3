# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The control plane and composition root."""

__version__ = "0.1.0"

# As shells report a command that a signal has ended: this and the signal's number.
SIGNAL_EXIT_CODE = 128
