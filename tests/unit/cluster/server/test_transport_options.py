# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.options.parsing import ServerOptions, parse_options
from cluster.server.app import settings_from
from cluster.server.transport_options import check_access


def _options(*flags: str) -> ServerOptions:
    return parse_options(["--model-repository=/models", *flags], {}, lambda path: path)


def test_an_ingress_is_told_where_the_access_policy_is_and_not_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("public: [infer]")
    options = _options(f"--access-policy={file}")
    check_access(options)
    assert settings_from(options).access_policy == str(file)
    check_access(_options())


def test_a_server_with_a_wrong_access_policy_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    with pytest.raises(InvalidArgumentError, match="cannot be read: No such file"):
        check_access(_options(f"--access-policy={file}"))
    file.write_text("public: infre")
    with pytest.raises(InvalidArgumentError, match="did you mean 'infer'"):
        check_access(_options(f"--access-policy={file}"))
