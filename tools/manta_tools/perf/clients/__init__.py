# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Senders of requests that were encoded once: HTTP/1.1, gRPC unary and stream."""
