# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""OpenAI bodies and answers for engines that have no OpenAI layer of their own."""
