# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The key of the lanes in the cluster's store, and in no argument of an actor."""

from dataclasses import fields

import pytest

from backends.api.errors import UnavailableError
from cluster.actors.lane_secret import LANE_SECRET_KEY, kept_lane_secret
from cluster.instances.node_files import NodeFilesSettings
from tests.support.registry_rows import DictRows


def test_an_instance_finds_the_key_in_the_store() -> None:
    rows = DictRows()
    rows.put(LANE_SECRET_KEY, b"key")
    assert kept_lane_secret(rows) == b"key"


def test_a_process_of_a_server_that_has_ended_is_told_so() -> None:
    with pytest.raises(UnavailableError, match="has ended"):
        kept_lane_secret(DictRows())


def test_what_fetches_files_is_not_started_with_the_key() -> None:
    assert "secret" not in {each.name for each in fields(NodeFilesSettings)}
