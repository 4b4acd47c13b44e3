# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts as the controller leads them: analysis of a candidate, and what follows from it."""
