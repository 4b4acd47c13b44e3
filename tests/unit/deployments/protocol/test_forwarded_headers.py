# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from deployments.protocol.forwarded_headers import forwarded_headers
from deployments.settings.forward_pattern import compile_forward_pattern

OPTION = "--http-header-forward-pattern"


def forwarded(pattern, *names):
    compiled = compile_forward_pattern(pattern, OPTION)
    return list(forwarded_headers(compiled, [(name.encode(), b"1") for name in names]))


def test_names_match_without_regard_to_case():
    assert forwarded("MY_HEADER.*", "my_header_1", "MY_HEADER_2", "other") == [
        "my_header_1",
        "MY_HEADER_2",
    ]


def test_names_match_by_case_after_a_leading_flag():
    assert forwarded("(?-i)MY_HEADER.*", "my_header_1", "MY_HEADER_2") == ["MY_HEADER_2"]
