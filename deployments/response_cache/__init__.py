# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The response cache: what a model answered before is answered without it.

``key`` says which requests are the same, ``local`` and ``redis`` are the stores, ``cached_model``
stands between a router and a model whose config enables the cache.
"""
