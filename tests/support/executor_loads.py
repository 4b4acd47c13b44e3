# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models of tests of an instance's executor, and how one of them is kept busy."""

import asyncio
from typing import Any

from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
)
from tests.support.lane_requests import (
    RecordedRequest,
    ScriptedModel,
    lane_request,
)

PLAIN = ModelConfig("m", max_batch_size=8)
BATCHING = ModelConfig("m", max_batch_size=8, dynamic_batching=DynamicBatching())
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)


async def held(executor: Any, model: ScriptedModel) -> RecordedRequest:
    """Submit a request and return once the model executes it and waits at its gate."""
    request = lane_request()
    executor.received([request])
    await asyncio.to_thread(model.entered.wait, 30)
    return request
