# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What holds of each store holds of the clouds'."""

from pathlib import Path

import pytest

from cluster.repository.stores.contracts import Store
from tests.support import store_claims


@pytest.mark.parametrize("claim", store_claims.OF_CLOUDS, ids=lambda claim: claim.__name__)
def test_store(store: Store, claim: store_claims.Claim, tmp_path: Path):
    claim(store, tmp_path / "scratch")
