# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs TensorRT plans.

Written against the Python API of TensorRT 10 and tested with a stand-in for it: it has not been run
with a real engine.
"""
