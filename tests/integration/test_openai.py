# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The stock ``openai`` client against models of both kinds."""

from collections.abc import Iterator

import openai
import pytest

from tests.support.openai_models import write_echo, write_parrot
from tests.support.server import RunningServer
from tests.support.shared_server import brought

USER = "user"


@pytest.fixture(scope="module")
def client(
    surface: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    repository = tmp_path_factory.mktemp("openai")
    write_parrot(repository)
    write_echo(repository)
    with (
        brought(surface, repository) as running,
        openai.OpenAI(
            base_url=f"http://{running.http}/v1", api_key="none", max_retries=0, timeout=60
        ) as client,
    ):
        yield client


def said(client: openai.OpenAI, model: str, text: str) -> tuple[str, int]:
    answer = client.chat.completions.create(model=model, messages=[{"role": USER, "content": text}])
    assert answer.choices[0].finish_reason == "stop"
    return answer.choices[0].message.content or "", answer.usage.total_tokens if answer.usage else 0


def streamed(client: openai.OpenAI, model: str, text: str) -> list[str]:
    stream = client.chat.completions.create(
        model=model, messages=[{"role": USER, "content": text}], stream=True
    )
    return [
        choice.delta.content for chunk in stream for choice in chunk.choices if choice.delta.content
    ]


def test_a_chat_is_answered(client: openai.OpenAI) -> None:
    assert said(client, "parrot", "to be or") == ("to be or", 4)
    assert said(client, "parrot:wise", "or not") == ("or not", 3)


def test_a_streamed_chat_comes_word_by_word(client: openai.OpenAI) -> None:
    assert streamed(client, "parrot", "to be or") == ["to ", "be ", "or "]


def test_embeddings_come_as_the_model_has_made_them(client: openai.OpenAI) -> None:
    got = client.embeddings.create(model="parrot", input="four", encoding_format="float")
    assert got.data[0].embedding == [0.5, 4]


def test_a_model_of_text_chats_and_completes(client: openai.OpenAI) -> None:
    assert said(client, "echo_text", "to be")[0] == "user: to be assistant: "
    assert streamed(client, "echo_text", "or") == ["user: ", "or ", "assistant: "]
    got = client.completions.create(model="echo_text", prompt="not to be", max_tokens=3)
    assert got.choices[0].text == "not to be "


def test_models_are_listed(client: openai.OpenAI) -> None:
    names = {each.id for each in client.models.list()}
    assert names >= {"parrot", "echo_text"}
    assert "add_sub" not in names
    assert client.models.retrieve("parrot").owned_by == "manta"


def test_the_port_for_openai_serves_the_same(client: openai.OpenAI, openai_port: int) -> None:
    there = client.with_options(base_url=f"http://127.0.0.1:{openai_port}/v1")
    assert said(there, "parrot", "to be or") == ("to be or", 4)
    assert [each.id for each in there.models.list()] == [each.id for each in client.models.list()]


def test_errors_are_the_clients_own_classes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        said(client, "nobody", "hello")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError, match="answers no OpenAI route"):
        said(client, "add_sub", "hello")
    with pytest.raises(openai.NotFoundError, match="does not answer the route 'completions'"):
        client.completions.create(model="parrot", prompt="x")
    with pytest.raises(openai.BadRequestError, match="asked to fail"):
        said(client, "parrot", "fail")
    with pytest.raises(openai.BadRequestError, match="field 'model' is empty"):
        said(client, "", "hello")
    with pytest.raises(openai.BadRequestError, match="asked to fail"):
        streamed(client, "parrot", "fail")
    with pytest.raises(openai.APIError, match="asked to fail"):
        streamed(client, "parrot", "first fail")


def test_a_client_that_goes_frees_the_model(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="parrot", messages=[{"role": USER, "content": "wait"}], stream=True
    )
    assert next(iter(stream)).choices[0].delta.content == "wait "
    stream.close()
    # Its one instance would never answer while it waits.
    assert said(client, "parrot", "and now") == ("and now", 3)
