# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is searched among: the fields of configs, their values, and the configs they make."""
