# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests and their answers, some of them kept in a store, to be looked at and sent again."""
