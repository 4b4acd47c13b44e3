# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The fork server is asked for a framework once, by the first instance that needed it."""

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from backends.api.model_config import ModelConfig
from backends.environments.requirement_lines import Requirements
from cluster.controller.prestarting import FRAMEWORKS, Preloading


def instance(
    backend: str = "",
    platform: str = "",
    runtime_env: Mapping[str, Any] | None = None,
    requirements: Requirements | None = None,
) -> Any:
    config = ModelConfig("m", backend=backend, platform=platform)
    spec = SimpleNamespace(config=config, runtime_env=runtime_env or {}, requirements=requirements)
    return SimpleNamespace(spec=spec)


@pytest.fixture
def asked() -> list[Sequence[str]]:
    return []


@pytest.fixture
def preloading(asked: list[Sequence[str]]) -> Preloading:
    def ask(modules: Sequence[str]) -> bool:
        asked.append(modules)
        return True

    return Preloading(ask)


async def all_asked(preloading: Preloading) -> None:
    await asyncio.gather(*preloading._tasks)


@pytest.mark.parametrize("backend", FRAMEWORKS)
async def test_a_framework_is_asked_for_once(
    preloading: Preloading, asked: list[Sequence[str]], backend: str
) -> None:
    preloading.loaded(instance(backend))
    preloading.loaded(instance(backend))
    await all_asked(preloading)
    assert asked == [FRAMEWORKS[backend]]


async def test_a_platform_names_a_framework_too(
    preloading: Preloading, asked: list[Sequence[str]]
) -> None:
    preloading.loaded(instance(platform="pytorch_libtorch"))
    await all_asked(preloading)
    assert asked == [FRAMEWORKS["pytorch"]]


async def test_what_is_no_framework_and_an_environment_of_ones_own_ask_for_nothing(
    preloading: Preloading, asked: list[Sequence[str]]
) -> None:
    for each in (
        instance("python"),
        instance("identity"),
        instance("pytorch", "", {"uv": ["x"]}),
        instance("pytorch", requirements=Requirements("/r", ("torch==1",))),
    ):
        preloading.loaded(each)
    await all_asked(preloading)
    assert asked == []
