# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an analysis has found, as rows: printed, in CSV files, and as models ready to serve."""
