# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Command lines and files of options as the server reads them."""

from collections.abc import Callable

import pytest

from cluster.options.parsing import OptionError, parse_options

REPOSITORY = "--model-repository=/models"


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def file_with(text: str) -> Callable[[str], str]:
    return lambda path: text


def refusal(
    *argv: str, environ: dict[str, str] | None = None, file: Callable[[str], str] = no_file
) -> str:
    with pytest.raises(OptionError) as caught:
        parse_options(argv, environ or {}, file)
    assert caught.value.exit_code == 2
    return str(caught.value)
