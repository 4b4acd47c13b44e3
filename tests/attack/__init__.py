# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What attackers send, at a real server on loopback; see docs/security.md."""
