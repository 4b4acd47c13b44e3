# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The load from several processes: who sends which part of it, and how they are told."""
