# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command `manta serve`: what it looks at first, what it says, and how it ends."""
