# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The control plane and composition root."""

__version__ = "0.1.0"
