# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.dataset import Recipe, make_turns, sessions_of
from manta_tools.perf.genai.prompts import Amount, PromptMaker
from manta_tools.perf.genai.tokenizing import ApproximateTokenizer

TOKENIZER = ApproximateTokenizer()


def made(recipe, input_file="", seed=0):
    return make_turns(recipe, PromptMaker(TOKENIZER, seed), str(input_file))


def written(path, *lines):
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    return path


def payload(tmp_path, *lines):
    return f"payload:{written(tmp_path / 'payload.jsonl', *lines)}"


def lengths(turns):
    return [len(TOKENIZER.encode(turn.text)) for turn in turns]


def test_made_up_prompts_have_their_number_lengths_and_limits():
    turns = made(Recipe(entries=7, input_tokens=Amount(30), output_tokens=Amount(12)))
    assert lengths(turns) == [30] * 7
    assert [turn.max_tokens for turn in turns] == [12] * 7
    assert len({turn.text for turn in turns}) == 7
    assert made(Recipe(entries=2))[0].max_tokens is None


def test_limits_and_lengths_vary_with_their_deviations():
    recipe = Recipe(entries=50, input_tokens=Amount(50, 20), output_tokens=Amount(40, 10))
    turns = made(recipe)
    assert len(set(lengths(turns))) > 10
    assert len({turn.max_tokens for turn in turns}) > 10
    assert made(recipe) == turns
    assert made(recipe, seed=1) != turns


def test_sessions_have_turns_delays_and_one_prefix():
    recipe = Recipe(
        input_tokens=Amount(20),
        prefixes=1,
        prefix_tokens=15,
        sessions=4,
        turns=Amount(3),
        delay_ms=Amount(100),
    )
    turns = made(recipe)
    sessions = sessions_of(turns)
    assert [len(each) for each in sessions] == [3] * 4
    assert len({turns[each[0]].session_id for each in sessions}) == 4
    for first, middle, last in sessions:
        assert [turns[each].delay_ms for each in (first, middle, last)] == [100, 100, 0]
        assert lengths([turns[first]])[0] >= 35
        assert lengths([turns[middle], turns[last]]) == [20, 20]


def test_prompts_of_a_file_are_had_in_their_order(tmp_path):
    path = written(tmp_path / "prompts.jsonl", {"text": " one "}, {"text_input": "two"})
    assert [turn.text for turn in made(Recipe(), path)] == ["one", "two"]


def test_a_directory_has_the_prompts_of_all_its_files(tmp_path):
    written(tmp_path / "b.jsonl", {"text": "three"})
    written(tmp_path / "a.jsonl", {"text": "one"}, {"text": "two"})
    assert [turn.text for turn in made(Recipe(), tmp_path)] == ["one", "two", "three"]


def test_prompts_of_a_file_may_have_prefixes(tmp_path):
    path = written(tmp_path / "prompts.jsonl", {"text": "one"}, {"text": "two"})
    turns = made(Recipe(prefixes=1, prefix_tokens=5), path)
    assert turns[0].text.removesuffix(" one") == turns[1].text.removesuffix(" two")


def test_a_payload_says_when_how_long_and_whose(tmp_path):
    lines = (
        {"timestamp": 10.7, "session_id": 1, "delay": 1000, "input_length": 25, "priority": 5},
        {"timestamp": 20, "session_id": 1, "text": "hi", "output_length": 9},
    )
    first, second = made(Recipe(delay_ratio=0.5), payload(tmp_path, *lines))
    assert lengths([first]) == [25]
    assert (first.due_ms, first.session_id, first.delay_ms) == (10, "1", 500)
    assert first.more == {"priority": 5}
    assert (second.text, second.max_tokens, second.due_ms, second.delay_ms) == ("hi", 9, 20, 0)


def test_payloads_share_the_blocks_of_their_hash_ids(tmp_path):
    lines = [{"input_length": 700, "hash_ids": [1, number]} for number in (2, 3)]
    first, second = made(Recipe(), payload(tmp_path, *lines))
    assert first.text[:1500] == second.text[:1500]
    assert first.text != second.text


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ({"prompt": "x"}, 'line 1 has no prompt; expected {"text": "..."}'),
        ({"text": "a", "text_input": "b"}, "line 1 has both 'text' and 'text_input'"),
        ({"text": 7}, "line 1 has the prompt 7, expected a string"),
        ([], "line 1 is no object"),
    ],
)
def test_a_line_without_a_prompt_is_refused(tmp_path, line, part):
    with pytest.raises(InvalidArgumentError) as caught:
        made(Recipe(), written(tmp_path / "prompts.jsonl", line))
    assert part in caught.value.message


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ({"hash_ids": [1]}, "line 1 has hash_ids, which need an input_length"),
        ({"delay": -1}, "line 1 has the delay -1, expected a number from 0 on"),
        ({"timestamp": "1"}, "line 1 has the timestamp '1'"),
        ({"input_length": True}, "line 1 has the input_length True"),
    ],
)
def test_a_payload_that_is_none_is_refused(tmp_path, line, part):
    with pytest.raises(InvalidArgumentError) as caught:
        made(Recipe(), payload(tmp_path, line))
    assert part in caught.value.message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"has no \*.jsonl"):
        made(Recipe(), tmp_path)
    (tmp_path / "a.jsonl").write_text("{")
    with pytest.raises(InvalidArgumentError, match="line 1 is no JSON"):
        made(Recipe(), tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b"\xff")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        made(Recipe(), tmp_path)
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(InvalidArgumentError, match="has no prompts; give at least one"):
        made(Recipe(), tmp_path)


def test_an_entry_without_a_session_is_named():
    with pytest.raises(InvalidArgumentError, match="entry 0 has no session_id"):
        sessions_of(made(Recipe(entries=1)))
