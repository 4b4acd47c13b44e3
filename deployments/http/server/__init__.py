# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 server: connections, heads, exchanges, answers."""
