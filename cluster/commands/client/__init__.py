# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a running server over HTTP, and the client that they share."""
