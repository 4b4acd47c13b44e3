# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that load, measure and tune servers: a distribution of its own."""
