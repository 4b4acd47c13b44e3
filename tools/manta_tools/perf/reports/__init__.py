# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a run prints and writes: perf_analyzer's text, CSV and profile export."""
