# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta model``: publishes, lists, compares and removes the models of a repository."""
