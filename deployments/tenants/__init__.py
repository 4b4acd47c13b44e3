# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tenants: what each may have, whether one more request is within it, shares of cluster limits."""
