# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request in the words of OpenVINO GenAI."""

import random
from typing import Any, Final

import openvino_genai

from backends.llm.api import LlmRequest

_MOST_SEED: Final = 1 << 31


def generation_config(usual: Any, request: LlmRequest, choice: int) -> Any:
    """Return the config of one choice of a request.

    Args:
        usual: A copy of the model's own config, which knows the tokens that end a text.
        request: The request.
        choice: Number of the choice; each has a seed of its own.
    """
    sampling = request.sampling
    config = usual
    config.apply_chat_template = False
    config.max_new_tokens = request.most_tokens
    config.min_new_tokens = min(request.least_tokens, request.most_tokens)
    config.ignore_eos = request.ignores_end
    config.stop_token_ids = config.stop_token_ids | set(request.stop_token_ids)
    config.presence_penalty = sampling.presence_penalty
    config.frequency_penalty = sampling.frequency_penalty
    config.repetition_penalty = sampling.repetition_penalty
    config.logprobs = int(request.wants_logprobs)
    config.do_sample = sampling.temperature > 0
    if config.do_sample:
        config.temperature = sampling.temperature
        config.top_p = sampling.top_p
        config.min_p = sampling.min_p
        if sampling.top_k:
            config.top_k = sampling.top_k
        # Its own seed is the same for all.
        seed = random.getrandbits(31) if sampling.seed is None else sampling.seed
        config.rng_seed = (seed + choice) % _MOST_SEED
    if request.json_schema:
        config.structured_output_config = openvino_genai.StructuredOutputConfig(
            json_schema=request.json_schema
        )
    return config
