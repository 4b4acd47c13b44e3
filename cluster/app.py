# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The import path of the Serve application in a checkout: ``serve run cluster.app:build``."""

from cluster.server.app import build

__all__ = ["build"]
