# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Limits of tenants that all ingresses have together: who has which share of them."""
