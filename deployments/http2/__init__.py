# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A sans-io HTTP/2 server; it knows no gRPC."""
