# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer that an OpenVINO model comes with."""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.api.errors import InvalidArgumentError
from backends.llm.openvino.failure import FAILURES, said


class OpenVinoTokenizer:
    """Text to tokens and back; from any thread.

    Args:
        tokenizer: An ``openvino_genai.Tokenizer``.
        model: The model's name, for messages.
    """

    def __init__(self, tokenizer: Any, model: str) -> None:
        self._tokenizer = tokenizer
        self._model = model

    @property
    def has_chat_template(self) -> bool:
        """Whether messages can be made a prompt."""
        return bool(self._tokenizer.chat_template)

    def encode(self, text: str, *, adds_special: bool) -> tuple[int, ...]:
        """Return the token ids of a text.

        Raises:
            InvalidArgumentError: The tokenizer refuses it.
        """
        # Its operations take no empty text.
        if not text:
            return ()
        try:
            inputs = self._tokenizer.encode(text, add_special_tokens=adds_special)
        except FAILURES as error:
            raise InvalidArgumentError(
                f"the tokenizer of model '{self._model}' refuses the text: {said(error)}"
            ) from error
        return tuple(inputs.input_ids.data[0].tolist())

    def decode(self, rows: Sequence[Sequence[int]], *, keeps_special: bool = False) -> list[str]:
        """Return the texts of lists of token ids, in one call."""
        texts: list[str] = self._tokenizer.decode(
            [list(row) for row in rows], skip_special_tokens=not keeps_special
        )
        return texts

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any],
    ) -> str:
        """Return the prompt that the chat template makes of messages.

        Raises:
            InvalidArgumentError: The template refuses them.
        """
        try:
            text: str = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                add_generation_prompt=True,
                tools=[dict(tool) for tool in tools] or None,
                extra_context=dict(extra) or None,
            )
        except FAILURES as error:
            raise InvalidArgumentError(
                f"the chat template of model '{self._model}' refuses messages: {said(error)}"
            ) from error
        return text
