# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model instance: the actor, its executor and threads, loading, calls of models."""
