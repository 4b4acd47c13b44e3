# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta analyze``: Model Analyzer's names and defaults, and Manta's own."""
