# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs what OpenVINO reads: its own IR, ONNX, SavedModels, TensorFlow Lite and PaddlePaddle."""
