# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever routers and holders do: each request ends once, and each batch is done once."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.backend import ExecuteBatch
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.lane.batches import Forget
from tests.support.examples import examples
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_rig import EPOCH, PoolRouter, answer, pooled, request_for

BATCHING = ModelConfig("m", max_batch_size=8)
# A batch: how many requests each of two routers has in it, which of them cancel theirs, and
# whether the second router's are forgotten before they come.
BATCH = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
EVENTS = st.lists(st.one_of(BATCH, st.just("next holder"), st.just("single")), max_size=12)


def answering(batch: ExecuteBatch) -> None:
    for each in batch.requests:
        if each.request.id == "bad":
            each.fail(InvalidArgumentError("bad"))
        elif each.request.id != "none":
            each.respond(InferenceResponse("", ""))


@settings(max_examples=examples(25), deadline=None)
@given(events=EVENTS, names=st.lists(st.sampled_from(["good", "bad", "none"]), min_size=1))
def test_each_request_ends_once_and_each_batch_is_done_once(events, names):
    async def main() -> None:
        async with pooled(BATCHING, ScriptedModel(answering)) as instance:
            holder, other = await instance.holder(), await instance.router()
            holders, epoch = [holder], EPOCH
            sent, formed, single_count = [], [], 0
            for number, event in enumerate([*events, (1, 0, False, False)]):
                request = request_for(names[number % len(names)])
                if event == "next holder":
                    epoch += 1
                    holder = await instance.router()
                    holders.append(holder)
                    await holder.adopt(epoch)
                elif event == "single":
                    other.submit(request)
                    single_count += 1
                else:
                    here, there, cancels, forgets = event
                    formed.append((epoch, number))
                    sent += holder.push(number, *[request] * here, total=here + there, epoch=epoch)
                    if forgets and there:
                        holder.lane.forget(Forget(epoch, number, there))
                    if there:
                        sent += other.push(number, *[request] * there, total=0, epoch=epoch)
                        if cancels:
                            sent[-1].cancel()
            for each in sent:
                await answer(each)
            if single_count:
                await other.next("bounced", single_count)
            current = {each for each in formed if each[0] == epoch}
            await until(lambda: current <= dones(holder).keys())
            told = sum(map(dones, holders), Counter())
            assert set(told) <= set(formed)
            assert all(count == 1 for count in told.values())
            assert instance.executor.activity().pending_count == 0

    asyncio.run(main())


def dones(holder: PoolRouter) -> Counter[tuple[int, int]]:
    return Counter((done.epoch, done.number) for done in holder.all("done"))
