# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta perf``: perf_analyzer's names, defaults and texts."""
