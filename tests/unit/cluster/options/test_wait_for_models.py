# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from cluster.options.parsing import OptionError, from_mapping
from cluster.options.settings_at_start import models_waited_for


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "all"),
        ({"exit_on_error": False}, "attempted"),
        ({"exit_on_error": False, "wait_for_models": "all"}, "all"),
        ({"wait_for_models": "attempted"}, "attempted"),
        ({"wait_for_models": "none"}, "none"),
    ],
)
def test_application_waits_for_all_models_unless_some_may_fail(arguments, expected) -> None:
    options = from_mapping({"model_repository": "/m", **arguments})
    assert models_waited_for(options) == expected


def test_unknown_thing_to_wait_for_is_refused() -> None:
    with pytest.raises(OptionError, match="Got some, expected one of auto, all, attempted, none"):
        from_mapping({"model_repository": "/m", "wait_for_models": "some"})
