#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a language model of 2 million parameters, trained on the sources of Python's library.

It is for tests: a Llama with a tokenizer and a chat template of its own, whose greedy text is
stable and makes little sense. Written are ``tiny.gguf`` (F16), ``tiny`` (a Hugging Face folder with
the same weights), ``exported`` (the same for OpenVINO) and ``greedy.json``: what transformers
generates from it, and engines must, too.

    python scripts/make_tiny_llm.py --output DIR

Takes torch, transformers, gguf and openvino-genai, and two minutes of a processor. What was made
is kept in the user's cache folder under the digest of this file; ``MANTA_TINY_LLM_CACHE`` names
another folder, or none if it is empty.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import stat
import sysconfig
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "MANTA_TINY_LLM_CACHE"
_SEED: Final = 11
_THREADS: Final = 2
_CORPUS_BYTES: Final = 3_000_000
_VOCABULARY: Final = 2048
_CONTEXT: Final = 1024
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS, _INNER = 192, 4, 6, 2, 512
_STEPS, _BATCH, _LENGTH, _WARMUP = 160, 12, 128, 15
_RATE: Final = 4e-3
_CHAT_SHARE: Final = 0.3
_BEGIN, _END = "<|begin|>", "<|end|>"
_ROLES: Final = ("<|system|>", "<|user|>", "<|assistant|>")
_TEMPLATE: Final = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_GREEDY_TOKENS: Final = 24
_PROMPTS: Final = (
    "def main(", "import os\nimport", "class Error(Exception):\n", "    return self.",
    "for i in range(", "if __name__ ==", '    """Return the', "# This is", "try:\n    ",
    "with open(filename", "raise ValueError(", "def __init__(self, ", "    def close(self):\n",
    "while True:\n", "from collections import", "x = [", "@property\ndef", "    assert ", "print(",
    "lambda x:",
)  # fmt: skip


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output: Path = parser.parse_args().output
    kept = _cache_entry()
    if kept is not None and kept.is_dir():
        shutil.copytree(kept, output, dirs_exist_ok=True)
        return
    make(output)
    if kept is not None:
        unfinished = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copytree(output, unfinished)
        try:
            unfinished.rename(kept)
        except OSError:  # another process was quicker
            shutil.rmtree(unfinished)


def _cache_entry() -> Path | None:
    """Return the folder where this script's model is kept; None when nothing is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '/nonexistent')}/.cache"
    named = os.environ.get(VARIABLE, f"{cache}/manta/tiny-llm")
    if not named:
        return None
    place = Path(named)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.stat()
    except OSError:
        return None
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        print(f"{place} is not this user's alone: no model is taken from there")
        return None
    return place / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:32]


def make(output: Path) -> None:
    """Train the model and write all of it."""
    import torch

    torch.manual_seed(_SEED)
    torch.set_num_threads(_THREADS)
    corpus = _corpus()
    tokenizer = _tokenizer(corpus)
    model = _trained(tokenizer, corpus)
    # What F16 holds, also where it is computed in float32.
    for weights in model.parameters():
        weights.data = weights.data.half().float()
    output.mkdir(parents=True, exist_ok=True)
    _write_greedy(output / "greedy.json", model, tokenizer)
    _write_gguf(output / "tiny.gguf", model, tokenizer)
    model.half().save_pretrained(output / "tiny")
    tokenizer.save_pretrained(output / "tiny")
    _write_exported(output / "exported", output / "tiny.gguf", output / "tiny", tokenizer)


def _corpus() -> str:
    """Return sources of Python's library, each ended."""
    library = Path(sysconfig.get_paths()["stdlib"])
    texts, size = [], 0
    for path in sorted(library.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        texts.append(text)
        size += len(text)
        if size > _CORPUS_BYTES:
            break
    return _END.join(texts)


def _tokenizer(corpus: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_BEGIN, _END, *_ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(corpus.replace(_END, "\n").splitlines(keepends=True), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=_BEGIN,
        eos_token=_END,
        pad_token=_END,
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _trained(tokenizer: Any, corpus: str) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=_HIDDEN,
        intermediate_size=_INNER,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_KV_HEADS,
        max_position_embeddings=_CONTEXT,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config).float().train()
    chosen = random.Random(_SEED)
    ids = torch.tensor(tokenizer(corpus, add_special_tokens=False)["input_ids"])
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=_RATE, weight_decay=0.01, betas=(0.9, 0.95)
    )
    for step in range(_STEPS):
        rate = min((step + 1) / _WARMUP, 1.0) * (1.0 - 0.9 * step / _STEPS)
        for group in optimizer.param_groups:
            group["lr"] = _RATE * rate
        rows = torch.stack([_row(chosen, ids, tokenizer) for _ in range(_BATCH)])
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 40 == 0 or step == _STEPS - 1:
            print(f"step {step}: loss {loss.item():.2f}", flush=True)
    return model.eval()


def _row(chosen: random.Random, ids: Any, tokenizer: Any) -> Any:
    """Return tokens to train on: of the sources, or of chats, from which it learns to end."""
    import torch

    if chosen.random() > _CHAT_SHARE:
        at = chosen.randrange(len(ids) - _LENGTH)
        return ids[at : at + _LENGTH]
    text = ""
    for _ in range(12):
        at = chosen.randrange(len(ids) - 8)
        words = " ".join(tokenizer.decode(ids[at : at + 6]).split()[:2])
        text += f"<|user|>\nSay {words}{_END}\n<|assistant|>\nYou said {words}.{_END}\n"
    return torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"][:_LENGTH])


def _write_greedy(path: Path, model: Any, tokenizer: Any) -> None:
    import torch

    rows = []
    for prompt in _PROMPTS:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            made = model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                do_sample=False,
                max_new_tokens=_GREEDY_TOKENS,
            )
        new = made[0, len(ids) :].tolist()
        text = tokenizer.decode(new, skip_special_tokens=True)
        rows.append({"prompt": prompt, "prompt_ids": ids, "token_ids": new, "text": text})
    path.write_text(json.dumps(rows, indent=1))


def _write_gguf(path: Path, model: Any, tokenizer: Any) -> None:
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_HIDDEN)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_tokenizer(writer, tokenizer)
    for name, weights in model.state_dict().items():
        _add_weights(writer, name, weights.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, tokenizer: Any) -> None:
    import gguf

    described = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = described["model"]["vocab"]
    tokens = sorted(vocabulary, key=lambda token: int(vocabulary[token]))
    special = set(tokenizer.all_special_tokens) | set(_ROLES)
    kinds = [
        gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens
    ]
    merges = [
        each if isinstance(each, str) else " ".join(each) for each in described["model"]["merges"]
    ]
    writer.add_tokenizer_model("gpt2")
    # What OpenVINO makes of "gpt-2" takes a blank off the signs behind it. Where the two differ, at
    # signs before line ends, no merge of this vocabulary reaches but for blanks behind those.
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(_TEMPLATE)


def _write_exported(folder: Path, source: Path, described: Path, tokenizer: Any) -> None:
    """Write what an export of the Hugging Face folder has, from OpenVINO's reading of the GGUF."""
    import openvino
    import openvino_genai
    from openvino_tokenizers import convert_tokenizer

    folder.mkdir()
    copied = folder / "model.gguf"
    shutil.copy(source, copied)
    settings = openvino_genai.SchedulerConfig()
    settings.cache_size = 1
    # It leaves the graph beside the file.
    openvino_genai.ContinuousBatchingPipeline(
        str(copied), settings, "CPU", {"enable_save_ov_model": True}
    )
    copied.unlink()
    forth, back = convert_tokenizer(tokenizer, with_detokenizer=True)
    openvino.save_model(forth, folder / "openvino_tokenizer.xml")
    openvino.save_model(back, folder / "openvino_detokenizer.xml")
    for name in ("config.json", "generation_config.json"):
        shutil.copy(described / name, folder)


_GGUF_NAMES: Final = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def _add_weights(writer: Any, name: str, weights: Any) -> None:
    import numpy as np

    plain = name.removesuffix(".weight")
    prefix = ""
    if plain.startswith("model.layers."):
        _, _, layer, plain = plain.split(".", 3)
        prefix = f"blk.{layer}."
    heads = {"self_attn.q_proj": _HEADS, "self_attn.k_proj": _KV_HEADS}.get(plain)
    if heads is not None:
        # GGUF rotates neighbours, Hugging Face halves.
        size = weights.shape[0] // heads // 2
        weights = weights.reshape(heads, 2, size, -1).swapaxes(1, 2).reshape(weights.shape)
    kind = np.float32 if weights.ndim == 1 else np.float16
    writer.add_tensor(f"{prefix}{_GGUF_NAMES[plain]}.weight", np.ascontiguousarray(weights, kind))


if __name__ == "__main__":
    main()
