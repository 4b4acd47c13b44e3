# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances with a sequence batcher of either strategy."""

from typing import Any

import pytest

from tests.support.sequence_items import (
    Instance,
    batcher,
)

STRATEGIES = pytest.mark.parametrize("strategy", ["direct", "oldest"])


def instance(**fields: Any) -> Instance:
    execution_us = fields.pop("execution_us", 0)
    return Instance(batcher(**fields), execution_us=execution_us)
