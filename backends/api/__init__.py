# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What every backend and every layer above shares: errors, datatypes, tensors, requests, configs."""
