# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import pickle
from dataclasses import replace
from functools import partial

import pytest

from cluster.controller import routing_publisher
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from deployments.contracts.routing_table import PollAnswer, RoutingTable
from deployments.settings.server_settings import LogSettings, ServerSettings
from tests.support import virtual_time
from tests.support.instruction_count import instructions


def publisher(clock: int = 1000) -> RoutingPublisher:
    subject = RoutingPublisher({}, lambda: clock)
    subject.release()
    return subject


def test_a_waiter_gets_the_table_as_soon_as_it_changes() -> None:
    async def main() -> None:
        subject = publisher()
        known = subject.table().version
        waiting = asyncio.create_task(subject.poll(known, 30))
        await asyncio.sleep(1)
        subject.changed()
        changes = (await waiting).changes
        assert changes is not None
        assert changes.version > known
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_a_waiter_without_a_change_gets_nothing_after_its_timeout() -> None:
    async def main() -> None:
        subject = publisher()
        assert (await subject.poll(subject.table().version, 30)).changes is None
        assert asyncio.get_running_loop().time() == 30

    virtual_time.run(main())


def test_versions_grow_even_when_the_clock_stands_still() -> None:
    subject = publisher()
    versions = []
    for _ in range(3):
        subject.changed()
        versions.append(subject.table().version)
    assert versions == sorted(set(versions))


def test_the_first_version_of_a_later_controller_is_higher() -> None:
    earlier = publisher(1_000)
    for _ in range(50):
        earlier.changed()
    assert publisher(2_000).table().version > earlier.table().version


def test_nobody_gets_a_table_before_the_first_release() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000)
        waiting = asyncio.create_task(subject.poll(0, 30))
        subject.changed()
        await asyncio.sleep(1)
        assert not waiting.done()
        subject.release()
        assert (await waiting).changes is not None

    virtual_time.run(main())


def test_marks_show_in_the_table() -> None:
    subject = publisher()
    assert (subject.table().initialised, subject.table().exiting) == (False, False)
    subject.mark_initialised()
    subject.mark_exiting()
    assert (subject.table().initialised, subject.table().exiting) == (True, True)


def test_models_without_versions_are_not_routed() -> None:
    known = ModelRecord("known").with_version(VersionRecord(1).after(LifecycleEvent.LOAD))
    subject = RoutingPublisher({"known": known, "failed": ModelRecord("failed")}, lambda: 1)
    assert list(subject.table().models) == ["known"]


def test_a_change_is_known_once_every_router_has_asked_for_a_newer_table() -> None:
    async def main() -> None:
        subject = publisher()
        polls = [asyncio.create_task(subject.poll(0, 30, name)) for name in ("a", "b")]
        await asyncio.gather(*polls)
        subject.changed()
        waiting = asyncio.create_task(subject.wait_known(60))
        version = subject.table().version
        again = [asyncio.create_task(subject.poll(version, 30, "a"))]
        await asyncio.sleep(1)
        assert not waiting.done()
        again.append(asyncio.create_task(subject.poll(version, 30, "b")))
        await waiting
        assert asyncio.get_running_loop().time() == 1
        await asyncio.gather(*again)

    virtual_time.run(main())


def test_a_router_that_is_gone_holds_up_one_change_only() -> None:
    async def main() -> None:
        subject = publisher()
        await subject.poll(0, 30, "gone")
        for _ in range(3):
            subject.changed()
            await subject.wait_known(1)
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_routers_of_an_earlier_controller_are_waited_for() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000, router_ids=["early"])
        subject.release()
        waiting = asyncio.create_task(subject.wait_known(5))
        await asyncio.sleep(1)
        assert not waiting.done()
        asking = asyncio.create_task(subject.poll(subject.table().version, 30, "early"))
        await waiting
        assert asyncio.get_running_loop().time() == 1
        asking.cancel()

    virtual_time.run(main())


def test_a_router_of_an_earlier_controller_that_does_not_come_is_taken_for_gone() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000, router_ids=["gone"])
        subject.release()
        await subject.wait_known(5)
        assert asyncio.get_running_loop().time() == 5
        assert subject.router_ids == []

    virtual_time.run(main())


def record(name: str) -> ModelRecord:
    return ModelRecord(name).with_version(VersionRecord(1).after(LifecycleEvent.LOAD))


class Router:
    """Polls as a router does: with the version it has, and a report when one is wanted."""

    def __init__(self, subject: RoutingPublisher, name: str) -> None:
        self.table = RoutingTable()
        self.answers: list[PollAnswer] = []
        self.reports = 0
        self._subject = subject
        self._name = name

    async def follow(self) -> None:
        reported, report = 0, b""
        while True:
            answer = await self._subject.poll(self.table.version, 30, self._name, reported, report)
            self.answers.append(answer)
            if answer.changes is not None:
                self.table = self.table.after(answer.changes)
            report = b""
            if answer.report_number != reported:
                self.reports += 1
                report = f"{self._name} {self.reports}".encode()
            reported = answer.report_number


def test_a_router_gets_only_the_models_that_have_changed_since_its_version() -> None:
    records = {name: record(name) for name in ("a", "b", "c")}
    subject = RoutingPublisher(records, lambda: 1000)
    subject.release()
    known = subject.table()
    records["b"] = records["b"].with_version(VersionRecord(2).after(LifecycleEvent.LOAD))
    records["d"] = record("d")
    del records["c"]
    for name in "bcd":
        subject.changed(name)
    changes = subject.changes_since(known.version)
    assert (changes.is_whole, sorted(changes.models)) == (False, ["b", "d"])
    assert (changes.removed, changes.settings) == ({"c"}, None)
    after = known.after(changes)
    assert after == subject.table()
    assert after.models["a"] is known.models["a"]


def test_changed_settings_travel_without_models() -> None:
    subject = RoutingPublisher({"a": record("a")}, lambda: 1000)
    subject.release()
    known = subject.table()
    subject.settings = ServerSettings(log=LogSettings(verbose_level=1))
    subject.changed()
    changes = subject.changes_since(known.version)
    assert changes.models == {}
    assert known.after(changes).settings.log.verbose_level == 1


def test_a_record_that_renders_as_before_is_no_change() -> None:
    records = {"a": record("a")}
    subject = RoutingPublisher(records, lambda: 1000)
    subject.release()
    known = subject.table()
    records["a"] = replace(records["a"], failure="the last reload came to nothing")
    subject.changed("a")
    assert subject.changes_since(known.version).models == {}


def test_a_model_that_went_and_came_back_is_no_longer_among_the_removed() -> None:
    records = {"a": record("a")}
    subject = RoutingPublisher(records, lambda: 1000)
    subject.release()
    known = subject.table()
    back = records.pop("a")
    subject.changed("a")
    subject.table()
    records["a"] = back
    subject.changed("a")
    assert known.after(subject.changes_since(known.version)).models.keys() == {"a"}


def test_a_version_of_an_earlier_controller_gets_the_whole_table() -> None:
    earlier = publisher(1_000)
    subject = RoutingPublisher({"a": record("a")}, lambda: 2_000)
    subject.release()
    changes = subject.changes_since(earlier.table().version)
    assert (changes.is_whole, list(changes.models)) == (True, ["a"])
    assert changes.settings is not None


def test_a_version_of_a_controller_whose_clock_was_ahead_gets_the_whole_table() -> None:
    async def main() -> None:
        ahead = publisher(5_000_000).table().version
        subject = RoutingPublisher({"a": record("a")}, lambda: 2_000)
        subject.release()
        answer = await subject.poll(ahead, 30, "router")
        assert answer.changes is not None
        assert answer.changes.is_whole
        assert answer.changes.version > ahead

    virtual_time.run(main())


def test_a_version_older_than_a_forgotten_removal_gets_the_whole_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing_publisher, "_MOST_REMOVED", 2)
    records = {name: record(name) for name in ("a", "b", "c", "d")}
    subject = RoutingPublisher(records, lambda: 1000)
    subject.release()
    known = subject.table()
    for name in ("a", "b", "c"):
        del records[name]
        subject.changed(name)
        subject.table()
    assert subject.changes_since(known.version).is_whole
    assert known.after(subject.changes_since(known.version)).models.keys() == {"d"}


def test_a_scrape_publishes_no_table_and_hears_of_every_other_router() -> None:
    async def main() -> None:
        subject = publisher()
        routers = [Router(subject, name) for name in ("a", "b", "c")]
        polls = [asyncio.create_task(each.follow()) for each in routers]
        await asyncio.sleep(1)
        before = subject.tables
        for count in range(1, 4):
            reports = await subject.collect("a", 5)
            assert sorted(reports) == [b"b %d" % (1 + count), b"c %d" % (1 + count)]
        assert subject.tables == before == 3
        assert asyncio.get_running_loop().time() == 1
        for poll in polls:
            poll.cancel()

    virtual_time.run(main())


def test_scrapes_that_come_together_share_reports() -> None:
    async def main() -> None:
        subject = publisher()
        other = Router(subject, "b")
        poll = asyncio.create_task(other.follow())
        await asyncio.sleep(1)
        before = other.reports
        found = await asyncio.gather(*(subject.collect("a", 5) for _ in range(50)))
        assert all(reports == found[0] != [] for reports in found)
        assert other.reports - before == 1
        poll.cancel()

    virtual_time.run(main())


def test_a_router_that_does_not_report_holds_up_one_scrape_only() -> None:
    async def main() -> None:
        subject = publisher()
        await subject.poll(0, 30, "gone")
        for _ in range(3):
            assert await subject.collect("a", 1) == []
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_reports_are_collected_while_tables_are_held_back() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000)
        poll = asyncio.create_task(Router(subject, "b").follow())
        await asyncio.sleep(1)
        assert await subject.collect("a", 5) == [b"b 2"]
        assert subject.tables == 0
        poll.cancel()

    virtual_time.run(main())


def test_routers_hear_which_repositories_can_be_listed() -> None:
    reachable = {"s3://b": True}
    subject = RoutingPublisher({}, lambda: 1000, read_reachable=lambda: dict(reachable))
    subject.release()
    before = subject.table()
    assert before.reachable == {"s3://b": True}
    reachable["s3://b"] = False
    subject.changed()
    changes = subject.changes_since(before.version)
    assert not changes.is_whole
    assert before.after(changes).reachable == {"s3://b": False}


def test_a_change_costs_as_much_among_many_models_as_among_few() -> None:
    costs = []
    # What runs for the first time costs more where lines are counted.
    for count in (100, 100, 400):
        records = {str(at): record(str(at)) for at in range(count)}
        subject = RoutingPublisher(records, lambda: 1000)
        subject.release()
        known = subject.table().version
        records["7"] = records["7"].with_version(VersionRecord(2).after(LifecycleEvent.LOAD))
        subject.changed("7")
        first = instructions(partial(subject.changes_since, known))
        costs.append((first, instructions(partial(subject.changes_since, known))))
        assert subject.changes_since(known).models.keys() == {"7"}
    assert costs[1] == costs[2]


def test_a_router_that_comes_while_a_change_spreads_is_waited_for() -> None:
    async def main() -> None:
        subject = publisher()
        before = subject.table().version
        polls = [asyncio.create_task(subject.poll(before, 30, "a"))]
        await asyncio.sleep(0)
        subject.changed()
        waiting = asyncio.create_task(subject.wait_known(60))
        await asyncio.sleep(0)
        polls.append(asyncio.create_task(subject.poll(before, 30, "new")))
        version = subject.table().version
        polls.append(asyncio.create_task(subject.poll(version, 30, "a")))
        await asyncio.sleep(1)
        assert not waiting.done()
        polls.append(asyncio.create_task(subject.poll(version, 30, "new")))
        await waiting
        assert asyncio.get_running_loop().time() == 1
        for poll in polls:
            poll.cancel()

    virtual_time.run(main())


def test_a_router_that_one_wait_takes_for_gone_holds_up_no_other() -> None:
    async def main() -> None:
        subject = publisher()
        await subject.poll(0, 30, "gone")
        subject.changed()
        patient = asyncio.create_task(subject.wait_known(60))
        await subject.wait_known(1)
        await patient
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_what_many_routers_get_is_pickled_once() -> None:
    records = {str(at): record(str(at)) for at in range(100)}
    subject = RoutingPublisher(records, lambda: 1000)
    subject.release()
    answer = PollAnswer(subject.changes_since(0), 1)
    assert pickle.loads(pickle.dumps(answer)) == answer
    again = subject.changes_since(0)
    assert instructions(lambda: pickle.dumps(PollAnswer(again, 2))) < 200
    subject.changed("7")
    assert subject.changes_since(0).version > again.version
