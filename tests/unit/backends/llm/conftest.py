# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.tiny_llm import TinyLlm, make_tiny_llm


@pytest.fixture(scope="package")
def tiny_llm(tmp_path_factory) -> TinyLlm:
    """A language model of 2 million parameters."""
    return make_tiny_llm(tmp_path_factory.mktemp("tiny"))
