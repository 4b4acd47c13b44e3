# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What all layers share: errors, datatypes, tensors, requests, configs, the backend contract."""
