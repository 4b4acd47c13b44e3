# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How long an ingress that ends goes on accepting."""

import pytest

from cluster.options.parsing import OptionError, ServerOptions, from_mapping
from cluster.options.settings_at_start import drain_delay_s

KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def _options(**arguments: object) -> ServerOptions:
    return from_mapping({"model_repository": ["/models"], **arguments})


@pytest.mark.parametrize(
    ("arguments", "environment", "expected_s"),
    [
        ({}, {}, 0),
        ({}, KUBERNETES, 5),
        ({"drain_delay_secs": "auto"}, KUBERNETES, 5),
        ({"drain_delay_secs": 0}, KUBERNETES, 0),
        ({"drain_delay_secs": 2.5}, {}, 2.5),
    ],
)
def test_drain_delay_is_automatic_unless_given(arguments, environment, expected_s) -> None:
    assert drain_delay_s(_options(**arguments), environment) == expected_s


@pytest.mark.parametrize("value", ["-1", "soon", "nan"])
def test_drain_delay_that_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match=value):
        _options(drain_delay_secs=value)
