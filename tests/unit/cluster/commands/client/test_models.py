# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a server tells of models and instances."""

import pytest

from backends.api.errors import NotFoundError
from cluster.commands.client.models import counted, require_model
from tests.support.asked_server import instance

ROWS = [{"name": "digits", "version": "1"}, {"name": "digits", "version": "2"}, {"name": "x"}]


def test_a_model_has_a_row_for_each_version() -> None:
    assert require_model(ROWS, "digits") == ROWS[:2]


@pytest.mark.parametrize(
    ("name", "hint"), [("digit", "Did you mean 'digits'?"), ("other", "'manta ls' lists all.")]
)
def test_an_unknown_model_is_said_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        require_model(ROWS, name)
    assert caught.value.message == f"the server has no model '{name}'. {hint}"


def test_live_instances_are_counted_and_all_where_some_are_not() -> None:
    rows = [
        instance("m", "1", 0, pid=1),
        instance("m", "2", 0, pid=2),
        instance("m", "2", 1, pid=None, state="waiting"),
    ]
    assert [counted(rows, "m", each) for each in "123"] == ["1", "1/2", "0"]
    assert counted(None, "m", "1") == ""
