# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the parts of the data plane agree on: routing table, sinks, requests to the controller."""
