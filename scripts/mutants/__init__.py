# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the pure rooms: which wrong programs do their unit tests notice?"""
