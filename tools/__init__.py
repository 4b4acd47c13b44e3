# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A package for its tests alone, which are `tools.tests`: `tests` is the server's."""
