# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a node: what there is, how it is read, and what this process may use of it."""
