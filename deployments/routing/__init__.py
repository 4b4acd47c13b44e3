# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which instance a request goes to: router, links, routes of sequences, checks of requests."""
