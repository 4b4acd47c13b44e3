# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta check``: what loading the models of a repository would meet, without loading them."""
