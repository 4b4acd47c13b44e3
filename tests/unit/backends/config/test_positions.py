# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where fields of a config stand."""

from hypothesis import given
from hypothesis import strategies as st

from backends.config.positions import fields_of

TEXT = """name: "m"  # a comment: with { marks
input [ { name: "A" dims: [ 1, -1 ] },
  { name: "B" } ]
parameters: { key: 'x' value < string_value: "1" "2" > };
"""


def test_each_field_has_path_value_line_and_column() -> None:
    rows = [
        (
            ".".join(f"{name}{index}" for name, index in each.path),
            each.value,
            each.line,
            each.column,
        )
        for each in fields_of(TEXT)
    ]
    assert rows == [
        ("name0", "m", 1, 1),
        ("input0", "", 2, 9),
        ("input0.name0", "A", 2, 11),
        ("input0.dims0", "1", 2, 29),
        ("input0.dims1", "-1", 2, 32),
        ("input1", "", 3, 3),
        ("input1.name0", "B", 3, 5),
        ("parameters0", "", 4, 1),
        ("parameters0.key0", "x", 4, 15),
        ("parameters0.value0", "", 4, 24),
        ("parameters0.value0.string_value0", "12", 4, 32),
    ]


@given(st.text(alphabet="ab:{}<>[],;\"'# \n1-", max_size=60) | st.text(max_size=40))
def test_any_text_has_fields_with_places_in_it(text: str) -> None:
    lines = text.count("\n") + 1
    for each in fields_of(text):
        assert 1 <= each.line <= lines
        assert each.column >= 1
