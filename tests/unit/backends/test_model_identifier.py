# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from backends.api.model_identifier import key_of, name_of, namespace_of, shown

NAMES = st.text(min_size=1).filter(lambda name: "/" not in name)


@given(st.text(), NAMES)
def test_a_key_tells_its_namespace_and_name(namespace: str, name: str) -> None:
    key = key_of(namespace, name)
    assert (namespace_of(key), name_of(key)) == (namespace, name)


def test_a_key_without_a_namespace_is_the_name() -> None:
    assert key_of("", "a::b") == shown("a::b") == "a::b"


def test_a_key_is_shown_as_triton_shows_it() -> None:
    assert shown(key_of("/models/a", "m")) == "/models/a::m"
