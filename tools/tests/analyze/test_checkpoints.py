# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint keeps, whenever its writer ends."""

import multiprocessing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, UnavailableError
from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.measuring.dispatching import Pool
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial
from manta_tools.analyze.running import run_search
from tests.support.examples import examples

SETUP = {"server": "models", "flags": {}}


def measured(level, error=""):
    trial = Trial(
        Candidate((Setting("m", (("instance_group.count", 2),)),)),
        (Load("m", "concurrency", level),),
    )
    return Measured(trial, {} if error else {"m": {"perf_throughput": level * 10}}, error=error)


def test_what_was_measured_and_noted_is_there_again(tmp_path):
    with Checkpoint.resume(tmp_path, SETUP) as kept:
        kept.append(measured(1.0))
        kept.append(measured(2.0, "it did not load"))
        kept.note("facts", ["a", "b"])
        kept.note("facts", ["c"])
    with Checkpoint.resume(tmp_path, SETUP) as again:
        assert again.measured == [measured(1.0), measured(2.0, "it did not load")]
        assert again.facts == {"facts": ["c"]}
        assert again.setup == SETUP


def test_a_file_cut_anywhere_holds_every_line_that_was_whole(tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole")
    with Checkpoint.resume(whole, SETUP) as kept:
        for level in range(1, 4):
            kept.append(measured(float(level)))
    data = (whole / "0.ckpt").read_bytes()
    first = data.index(b"\n") + 1

    @given(st.integers(min_value=first, max_value=len(data)))
    @settings(max_examples=examples(30), deadline=None)
    def holds(length):
        folder = tmp_path_factory.mktemp("cut")
        (folder / "0.ckpt").write_bytes(data[:length])
        lines = data[:length].count(b"\n") - 1
        with Checkpoint.resume(folder, SETUP) as cut:
            assert len(cut.measured) == lines
            cut.append(measured(9.0))
        with Checkpoint.resume(folder, SETUP) as again:
            assert again.measured[-1] == measured(9.0)
            assert len(again.measured) == lines + 1

    holds()


def test_another_setup_begins_the_next_file(tmp_path):
    with Checkpoint.resume(tmp_path, SETUP) as kept:
        kept.append(measured(1.0))
    with Checkpoint.resume(tmp_path, {**SETUP, "flags": {"percentile": 99}}) as other:
        assert other.measured == []
        assert other.path.name == "1.ckpt"
    with Checkpoint.newest(tmp_path) as newest:
        assert newest.path.name == "1.ckpt"


def _hold(folder, opened, done):
    with Checkpoint.resume(folder, SETUP):
        opened.set()
        done.wait(60)


def test_a_checkpoint_has_one_writer(tmp_path):
    context = multiprocessing.get_context("spawn")
    opened, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, opened, done))
    holder.start()
    try:
        assert opened.wait(60)
        with pytest.raises(UnavailableError, match="being written by another analysis"):
            Checkpoint.resume(tmp_path, SETUP)
    finally:
        done.set()
        holder.join(60)
    Checkpoint.resume(tmp_path, SETUP).close()


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="holds no checkpoint"):
        Checkpoint.newest(tmp_path)
    (tmp_path / "3.ckpt").write_text('{"checkpoint": 99, "setup": {}}\n')
    with pytest.raises(InvalidArgumentError, match=r"line 1 of .*format 99"):
        Checkpoint.newest(tmp_path)
    (tmp_path / "3.ckpt").write_text("[]\n")
    with pytest.raises(InvalidArgumentError, match="line 1 of"):
        Checkpoint.newest(tmp_path)


class Listed:
    """Asks for levels, one after the other."""

    def __init__(self, levels):
        self.left = [measured(level).trial for level in levels]
        self.told = []

    def ask(self):
        return self.left[:1]

    def tell(self, outcome):
        self.left.pop(0)
        self.told.append(outcome)


class Counting:
    """Measures, and counts how often."""

    name = "here"

    def __init__(self):
        self.count = 0

    async def measure(self, trial):
        self.count += 1
        return measured(trial.loads[0].level)


async def test_a_search_is_told_what_is_known_and_has_the_rest_measured(tmp_path):
    seen = []
    with Checkpoint.resume(tmp_path, SETUP) as kept:
        kept.append(measured(2.0))
        search, measurer = Listed([1.0, 2.0, 3.0]), Counting()
        is_complete = await run_search(
            search,
            Pool([measurer], print),
            kept,
            is_stopping=lambda: False,
            on_measured=lambda outcome, place: seen.append((outcome, place)),
        )
        assert is_complete
        assert measurer.count == 2
        assert search.told == [measured(1.0), measured(2.0), measured(3.0)]
        assert seen == [(measured(1.0), "here"), (measured(3.0), "here")]
        assert len(kept.measured) == 3


async def test_a_search_that_is_stopped_goes_on_where_it_was(tmp_path):
    with Checkpoint.resume(tmp_path, SETUP) as kept:
        measurer = Counting()
        levels = [1.0, 2.0, 3.0]
        for most in (1, 2, 3):
            await run_search(
                Listed(levels),
                Pool([measurer], print),
                kept,
                is_stopping=lambda most=most: measurer.count >= most,
                on_measured=lambda *_: None,
            )
        assert measurer.count == 3
        assert [each.trial.loads[0].level for each in kept.measured] == levels
