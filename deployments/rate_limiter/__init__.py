# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiter between processes: one arbiter on each node, a claim in each instance."""
