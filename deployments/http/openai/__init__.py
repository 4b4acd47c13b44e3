# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The OpenAI routes of the HTTP port: a codec over the data plane, as the KServe routes are."""
