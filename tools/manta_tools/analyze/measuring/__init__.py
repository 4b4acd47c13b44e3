# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs trials: a server, variants of models on it, load, and what both cost."""
