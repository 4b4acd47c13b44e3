# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Language models: an engine with continuous batching behind tensors and OpenAI bodies."""
