# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import io
import json

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.tune import journal
from manta_tools.tune.adjusting import (
    check_bounds,
    instance_count,
    read_settings,
    with_settings,
)
from manta_tools.tune.records import Bounds, Settings

CONFIG = {
    "name": "m",
    "max_batch_size": 32,
    "dynamic_batching": {
        "preferred_batch_size": [8, 16],
        "max_queue_delay_microseconds": "700",
        "preserve_ordering": True,
    },
    "instance_group": [{"count": 2}, {"count": 1}],
}


def test_settings_are_read_from_the_config():
    assert read_settings(CONFIG) == Settings(700, 16)
    assert read_settings({"dynamic_batching": {}}) == Settings(0, 0)
    assert instance_count(CONFIG) == 3
    assert instance_count({}) == 1


def test_only_what_has_changed_is_written():
    batching = with_settings(CONFIG, Settings(900, 16))["dynamic_batching"]
    assert batching["max_queue_delay_microseconds"] == 900
    assert batching["preferred_batch_size"] == [8, 16]
    assert batching["preserve_ordering"]
    smaller = with_settings(CONFIG, Settings(700, 4))
    assert smaller["dynamic_batching"]["preferred_batch_size"] == [4]
    assert read_settings(smaller) == Settings(700, 4)
    assert CONFIG["dynamic_batching"]["preferred_batch_size"] == [8, 16]


def test_a_model_without_dynamic_batching_cannot_be_tuned():
    with pytest.raises(InvalidArgumentError, match="model 'm' is not batched dynamically"):
        read_settings({"name": "m"})


def test_a_preferred_size_above_max_batch_size_is_refused():
    check_bounds(CONFIG, Bounds(batch=(1, 32)))
    with pytest.raises(InvalidArgumentError, match="max_batch_size of model 'm', which is 32"):
        check_bounds(CONFIG, Bounds(batch=(1, 33)))


def test_a_journal_knows_the_config_to_go_back_to(tmp_path):
    file = io.StringIO()
    journal.begun(file, "now", "m", CONFIG)
    path = tmp_path / "journal"
    path.write_text(file.getvalue())
    assert journal.config_before(path, "m") == CONFIG
    with pytest.raises(InvalidArgumentError, match="of model 'm', not of 'n'"):
        journal.config_before(path, "n")


@pytest.mark.parametrize("text", ["", "{}", "nothing", json.dumps([1])])
def test_another_file_is_no_journal(tmp_path, text):
    path = tmp_path / "journal"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match="is no journal of manta tune"):
        journal.config_before(path, "m")
