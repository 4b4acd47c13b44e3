# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The families of attacks, each a function of a scene that returns its tally."""
