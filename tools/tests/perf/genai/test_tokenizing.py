# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.corpus import corpus
from manta_tools.perf.genai.tokenizing import ApproximateTokenizer, read_tokenizer
from tests.support.tokenizer_files import write_tokenizer


@given(st.text())
def test_the_approximation_loses_no_text(text):
    tokenizer = ApproximateTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("The quick fox.", ["The", " quick", " fox", "."]),
        ("internationalization", ["interna", "tionali", "zation"]),
        (" 12345", [" 123", "45"]),
        ("a\n\nb", ["a", "\n", "\n", "b"]),
        ("日本", ["日", "本"]),
    ],
)
def test_long_words_numbers_and_other_scripts_are_several_tokens(text, tokens):
    assert ApproximateTokenizer().encode(text) == tokens


def test_a_tokenizers_file_counts_as_its_library_does(tmp_path):
    path = write_tokenizer(tmp_path)
    tokenizer = read_tokenizer(str(path))
    assert tokenizer.name == str(path)
    tokens = tokenizer.encode("water and stone")
    assert tokenizer.decode(tokens) == "water and stone"
    assert tokens == Tokenizer.from_file(str(path)).encode("water and stone").ids
    assert read_tokenizer(str(tmp_path)).encode("water and stone") == tokens


def test_a_tokenizer_that_is_not_there_is_not_downloaded(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"nothing is downloaded, so give the path"):
        read_tokenizer("gpt2")
    with pytest.raises(InvalidArgumentError, match=r"no such file"):
        read_tokenizer(str(tmp_path))


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InvalidArgumentError, match=r"tokenizer.json cannot be read"):
        read_tokenizer(str(path))


def test_without_its_library_a_tokenizers_file_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InvalidArgumentError, match=r"install manta-tools\[genai\]"):
        read_tokenizer(str(path))


def test_the_same_seed_gives_the_same_text():
    assert corpus(500, 3) == corpus(500, 3)
    assert corpus(500, 3) != corpus(500, 4)
    assert len(corpus(500, 3).split()) >= 500
