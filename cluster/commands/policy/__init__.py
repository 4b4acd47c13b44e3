# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta policy``: checks and tries access policies, and makes keys for them."""
