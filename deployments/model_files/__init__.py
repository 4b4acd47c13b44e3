# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files of models on a node: what a version is loaded from, fetched once, checked, and kept."""
