# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The actors of model instances: one place, a pool of them, live ones found again."""
