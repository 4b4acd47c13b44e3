# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio

from cluster.instances.prober import MOST_QUESTIONS_PER_S, Prober
from deployments.instance.progress import Progress
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import WELL, until

TIMEOUT_S = 10.0
NOT_TURNING = Progress(turned=False, executing_for_s=0.0, is_stuck=False)
STUCK = Progress(turned=True, executing_for_s=0.0, is_stuck=True)
COMPUTING = Progress(turned=True, executing_for_s=3600.0, is_stuck=False)


class _Asked:
    """An instance, which answers what the test says; None is no answer."""

    def __init__(self, answer: Progress | None = WELL) -> None:
        self.answer = answer
        self.count = 0

    async def __call__(self) -> Progress:
        self.count += 1
        if self.answer is None:
            await asyncio.Event().wait()
            raise AssertionError
        return self.answer


async def _verdict(answer: Progress | None) -> float:
    """Return after how many seconds an instance is wedged that answered well for a minute."""
    prober, asked = Prober(TIMEOUT_S), _Asked()
    wedged = prober.watch("i", asked)
    await asyncio.sleep(60)
    assert not wedged.done()
    asked.answer = answer
    after_s = await until(wedged.done)
    await prober.close()
    return after_s


@in_virtual_time
async def test_an_instance_that_does_not_answer_is_wedged_after_the_timeout() -> None:
    assert 0.99 * TIMEOUT_S <= await _verdict(None) <= 1.6 * TIMEOUT_S


@in_virtual_time
async def test_an_instance_whose_reactor_does_not_turn_is_wedged_after_the_timeout() -> None:
    assert 0.99 * TIMEOUT_S <= await _verdict(NOT_TURNING) <= 1.6 * TIMEOUT_S


@in_virtual_time
async def test_an_instance_whose_execution_thread_is_stuck_is_wedged_after_the_timeout() -> None:
    assert 0.99 * TIMEOUT_S <= await _verdict(STUCK) <= 1.6 * TIMEOUT_S


@in_virtual_time
async def test_an_instance_that_computes_for_an_hour_is_not_wedged() -> None:
    prober = Prober(TIMEOUT_S)
    wedged = prober.watch("i", _Asked(COMPUTING))
    await asyncio.sleep(3600)
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_an_instance_that_gets_on_again_in_time_is_not_wedged() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked(STUCK)
    wedged = prober.watch("i", asked)
    await asyncio.sleep(0.8 * TIMEOUT_S)
    asked.answer = WELL
    await asyncio.sleep(10 * TIMEOUT_S)
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_questions_are_bounded_however_many_instances_there_are() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    for number in range(4000):
        prober.watch(f"i{number}", asked)
    await asyncio.sleep(20)
    assert asked.count <= 20 * MOST_QUESTIONS_PER_S
    assert asked.count >= 20 * MOST_QUESTIONS_PER_S * 0.9
    await prober.close()


@in_virtual_time
async def test_one_of_a_thousand_that_hangs_is_found_as_soon_as_one_of_few() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    for number in range(999):
        prober.watch(f"i{number}", asked)
    wedged = prober.watch("hangs", _Asked(None))
    async with asyncio.timeout(1.5 * TIMEOUT_S + 1):
        await wedged
    await prober.close()


@in_virtual_time
async def test_one_that_hangs_does_not_keep_the_others_from_being_asked() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    prober.watch("hangs", _Asked(None))
    prober.watch("i", asked)
    await asyncio.sleep(20 * TIMEOUT_S)
    assert asked.count >= 20
    await prober.close()


@in_virtual_time
async def test_a_suspect_that_does_not_answer_is_wedged_within_two_seconds() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    wedged = prober.watch("i", asked)
    asked.answer = None
    prober.suspect("i")
    assert await until(wedged.done) <= 2.1
    await prober.close()


@in_virtual_time
async def test_a_suspect_that_answers_is_not_wedged() -> None:
    prober = Prober(TIMEOUT_S)
    wedged = prober.watch("i", _Asked())
    prober.suspect("i")
    prober.suspect("one that is not in service")
    await asyncio.sleep(60)
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_a_prober_that_was_stopped_itself_gives_instances_time_to_answer() -> None:
    loop = asyncio.get_running_loop()
    prober, asked = Prober(TIMEOUT_S), _Asked(None)
    wedged = prober.watch("i", asked)
    await until(lambda: asked.count)
    # The clock jumps while this process does nothing, as in SIGSTOP and SIGCONT.
    loop._jump.offset_s += 3600  # type: ignore[attr-defined]
    await asyncio.sleep(0.1)
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_an_instance_that_is_forgotten_is_asked_no_more() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    prober.watch("i", asked)
    await asyncio.sleep(60)
    prober.forget("i")
    before = asked.count
    await asyncio.sleep(60)
    assert asked.count == before
    await prober.close()


@in_virtual_time
async def test_without_a_timeout_nobody_is_asked() -> None:
    prober, asked = Prober(0.0), _Asked(None)
    wedged = prober.watch("i", asked)
    await asyncio.sleep(3600)
    assert not asked.count
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_all_are_asked_at_once_and_those_that_do_not_answer_in_time_are_left_out() -> None:
    prober = Prober(0.0)
    answers = {"a": WELL, "b": None, "c": COMPUTING}
    for name, answer in answers.items():
        prober.watch(name, _Asked(answer))
    began_s = asyncio.get_running_loop().time()
    found = await prober.ask_all(["a", "b", "c", "unknown"], 1.0)
    assert found == {"a": WELL, "c": COMPUTING}
    assert asyncio.get_running_loop().time() == began_s + 1.0
    assert await prober.ask_all([], 1.0) == {}


class _Network:
    """The way to an instance that says nothing while it is cut off."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        self._asked.answer = None

    def heal(self) -> None:
        self.is_cut = False
        self._asked.answer = WELL

    async def is_cut_off(self, timeout_s: float) -> bool:
        if self.is_cut:
            await asyncio.sleep(timeout_s)
        return self.is_cut


@in_virtual_time
async def test_an_instance_whose_node_is_cut_off_for_twice_the_timeout_is_not_wedged() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    network = _Network(asked)
    wedged = prober.watch("i", asked, network.is_cut_off)
    for _ in range(20):
        network.cut()
        prober.suspect("i")
        await asyncio.sleep(2 * TIMEOUT_S)
        network.heal()
        await asyncio.sleep(3.3 * TIMEOUT_S)
    assert not wedged.done()
    await prober.close()


@in_virtual_time
async def test_an_instance_whose_node_stays_cut_off_is_wedged_in_the_end() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    network = _Network(asked)
    wedged = prober.watch("i", asked, network.is_cut_off)
    network.cut()
    assert 3 * TIMEOUT_S <= await until(wedged.done) <= 4.6 * TIMEOUT_S
    await prober.close()


@in_virtual_time
async def test_an_instance_that_hangs_when_its_node_is_back_is_wedged() -> None:
    prober, asked = Prober(TIMEOUT_S), _Asked()
    network = _Network(asked)
    wedged = prober.watch("i", asked, network.is_cut_off)
    network.cut()
    prober.suspect("i")
    await asyncio.sleep(0.5 * TIMEOUT_S)
    network.heal()
    asked.answer = NOT_TURNING
    assert await until(wedged.done) <= 2.1 * TIMEOUT_S
    await prober.close()
