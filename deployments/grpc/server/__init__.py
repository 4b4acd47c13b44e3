# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The two gRPC transports: our own HTTP/2 server and grpcio."""
