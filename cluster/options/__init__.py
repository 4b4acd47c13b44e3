# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server's flags: table, values, checks, parsing."""

from cluster.options.parsing import parse_options
from cluster.options.table import ServerOptions

__all__ = ["ServerOptions", "parse_options"]
