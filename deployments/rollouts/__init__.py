# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts: which version of a model answers a request. Pure: rules and records."""
