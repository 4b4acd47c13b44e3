# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs SavedModels and GraphDefs with TensorFlow, or SavedModels with OpenVINO in its place."""
