# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where instances find files that came with a load: the cluster's key-value store."""

from typing import Any, Final

from ray.experimental.internal_kv import _internal_kv_get

STORE_NAMESPACE: Final = b"manta"
FILES_PREFIX: Final = b"controller/files/"


def fetch_model_files(key: str) -> bytes | None:
    """Return what the controller has put under a key; None when nothing is there. Blocks."""
    value: Any = _internal_kv_get(FILES_PREFIX + key.encode(), namespace=STORE_NAMESPACE)
    return None if value is None else bytes(value)
