# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A small tokenizer's file, as Hugging Face's library writes it."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from manta_tools.perf.genai.corpus import corpus

_VOCABULARY = 1500


def write_tokenizer(directory: Path) -> Path:
    """Train a tokenizer on the corpus and write it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([corpus(2000, 0)], trainer)
    path = directory / "tokenizer.json"
    tokenizer.save(str(path))
    return path
