# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Backends in C: unmodified libraries that were built against Triton's ``tritonbackend.h``."""
