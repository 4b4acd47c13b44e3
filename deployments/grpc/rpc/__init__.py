# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC over HTTP/2: calls, messages, deadlines, compression; pure."""
