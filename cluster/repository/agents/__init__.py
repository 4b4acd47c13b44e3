# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repository agents: what makes of a model's files, before they are loaded, what is loaded."""
