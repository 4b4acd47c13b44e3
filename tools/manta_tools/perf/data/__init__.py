# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a request carries: the model's tensors, generated or read data, sequences."""
