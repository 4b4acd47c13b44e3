# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reports about an analysis as pages, made of nothing but the rows of its CSV file."""
