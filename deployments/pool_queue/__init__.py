# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queues of pools: who holds them, and how the other routers' requests get into them."""
