# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pages with tables and figures, as values, and what draws them as HTML and as PDF."""
