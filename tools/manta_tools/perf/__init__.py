# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta perf``: generates load against a server of the V2 protocol and measures it."""
