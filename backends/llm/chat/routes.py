# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Routes of the OpenAI API over an engine that knows nothing of them."""

from collections.abc import Callable, Sequence
from typing import Final

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.quoting import quote_names, shorten
from backends.llm.api import Engine, LlmRequest
from backends.llm.chat.answers import Answer, Reply, StreamedAnswer, WholeAnswer
from backends.llm.chat.bodies import ChatBody, CompletionBody, read_body
from backends.llm.chat.forms import ChatForm, CompletionForm, Form
from backends.llm.chat.prompts import chat_request, completion_requests
from backends.llm.chat.tools import tool_choice

CHAT: Final = "chat/completions"
COMPLETIONS: Final = "completions"


class OpenAiRoutes:
    """Answers bodies of the OpenAI API.

    Args:
        engine: What generates.
        tool_parser: In which form the model writes calls of tools; empty when nobody says.
    """

    def __init__(self, engine: Engine, tool_parser: str = "") -> None:
        self._engine = engine
        self._tool_parser = tool_parser
        self._by_route: dict[str, Callable[[bytes, Reply], None]] = {
            CHAT: self._chat,
            COMPLETIONS: self._completions,
        }

    def answer(self, route: str, body: bytes, reply: Reply) -> None:
        """Have a body answered; the answer comes from the engine's thread.

        Args:
            route: What stands after ``/v1/``.
            body: JSON, as the client has sent it.
            reply: Where the objects of the answer go.

        Raises:
            InvalidArgumentError: The engine has no such route, or a field of the body is wrong.
        """
        known = self._engine.capabilities.routes
        if route not in known or route not in self._by_route:
            raise InvalidArgumentError(
                f"the model has no route '{shorten(route)}', expected one of {quote_names(known)}"
            )
        self._by_route[route](body, reply)

    def _chat(self, text: bytes, reply: Reply) -> None:
        body = read_body(text, ChatBody)
        choice = tool_choice(body, self._tool_parser)
        request = chat_request(self._engine, body, choice)
        self._submit(body, ChatForm(choice), [""], [request], reply)

    def _completions(self, text: bytes, reply: Reply) -> None:
        body = read_body(text, CompletionBody)
        prompts, requests = completion_requests(self._engine, body)
        echoes = [prompt.echo for prompt in prompts]
        self._submit(body, CompletionForm(), echoes, requests, reply)

    def _submit(
        self,
        body: ChatBody | CompletionBody,
        form: Form,
        echoes: Sequence[str],
        requests: Sequence[LlmRequest],
        reply: Reply,
    ) -> None:
        wants_logprobs = requests[0].wants_logprobs
        tokenizer = self._engine.tokenizer if wants_logprobs else None
        common = (form, body.model, reply, tokenizer, echoes, requests[0].choices)
        answer: Answer = WholeAnswer(*common)
        if body.stream:
            answer = StreamedAnswer(*common, has_usage_chunk=body.has_usage_chunk)
        try:
            for request, part in zip(requests, answer.parts(), strict=True):
                self._engine.submit(request, part)
        except TritonError as error:
            # The prompts before it are under way: the answer that they share ends here.
            answer.fail(error)
