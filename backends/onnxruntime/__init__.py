# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX models with ONNX Runtime, on CPUs and NVIDIA GPUs."""
