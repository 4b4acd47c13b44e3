# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from deployments.settings.forward_pattern import compile_forward_pattern

OPTION = "--http-header-forward-pattern"


def test_empty_pattern_forwards_nothing():
    assert compile_forward_pattern("", OPTION) is None


@pytest.mark.parametrize("pattern", ["(", "(?-i)[", "a{99999999999999999999}"])
def test_pattern_that_is_not_a_regular_expression_is_refused_by_name(pattern):
    with pytest.raises(InvalidArgumentError) as caught:
        compile_forward_pattern(pattern, OPTION)
    assert caught.value.message.startswith(f"{OPTION} '{pattern}' is not a regular expression: ")
