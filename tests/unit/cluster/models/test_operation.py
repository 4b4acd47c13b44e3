# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
from typing import Any, cast

import pytest

from backends.api.errors import InternalError
from cluster.models import operation
from cluster.models.operated_model import OperatedModel
from tests.support import virtual_time


async def fails_later(error: Exception) -> None:
    await asyncio.sleep(1)
    raise error


@pytest.mark.parametrize(
    ("error", "is_logged"), [(KeyError("x"), True), (InternalError("y"), False)]
)
def test_a_bug_in_a_load_that_nobody_waits_for_is_logged(caplog, error, is_logged):
    async def run() -> None:
        operation.begin("load of 'm'", fails_later(error))
        await asyncio.sleep(2)

    virtual_time.run(run())
    assert [record.message for record in caplog.records] == ["load of 'm' failed"] * is_logged


@pytest.mark.parametrize("times", [1, 3])
def test_a_cancelled_operation_has_cleaned_up_before_the_next_begins(times):
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            steps.append("cleaned up")

    async def run() -> None:
        model = OperatedModel(cast("Any", None), asyncio.Event())
        await model.end_work()
        model.work = operation.begin("load", work())
        await asyncio.sleep(1)
        assert operation.is_running(model.work)
        for _ in range(times - 1):
            model.cancel()
            await asyncio.sleep(0.1)
        await model.end_work()
        steps.append("next")
        assert not operation.is_running(model.work)

    virtual_time.run(run())
    assert steps == ["cleaned up", "next"]
