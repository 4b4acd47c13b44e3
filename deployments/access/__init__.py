# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who asks and what it may do: the access policy, credentials, rules, the audit log."""
