# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta tune``: adjusts how a served model is batched, within bounds, so that it keeps an SLO."""
