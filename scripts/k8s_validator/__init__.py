# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Validates Kubernetes manifests without a cluster; see `scripts/k8s_validate.py`."""
