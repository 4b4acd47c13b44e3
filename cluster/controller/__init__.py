# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller actor: what it keeps, what it publishes, and its recovery."""
