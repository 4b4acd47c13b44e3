# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the weights: a random projection of hashed trigrams to 64 numbers."""

import numpy as np

weights = np.random.default_rng(1).standard_normal((4096, 64), dtype=np.float32)
np.save("models/embedder/1/weights.npy", weights)
