# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets on a command line and in an environment."""

import pytest

from cluster.options.concealing import conceal_variables, shown_arguments
from cluster.options.table import FLAGS

RESTRICTION = "health:key=zq-secret"


@pytest.mark.parametrize(
    "given",
    [
        [f"--http-restricted-api={RESTRICTION}"],
        ["--http-restricted-api", RESTRICTION],
        ["--grpc-restricted-protocol", RESTRICTION, "--id=x"],
        [f"--grpc_restricted_protocol={RESTRICTION}"],
        ["--cache-config=redis,password=zq-secret"],
        ["--model-repository=s3://user:zq-secret@host/bucket"],
        ["--model-repository", "https://zq-secret@host/x"],
    ],
)
def test_secrets_are_hidden_and_all_else_is_shown(given: list[str]):
    arguments = ["--http-port=0", *given, "--id", "zq"]
    shown = shown_arguments(arguments, FLAGS.values())
    assert "zq-secret" not in " ".join(shown)
    assert len(shown) == len(arguments)
    assert (shown[0], shown[-1]) == ("--http-port=0", "zq")


def test_arguments_without_secrets_stay_as_they_are():
    arguments = ["--id", "--http-port", "--model-repository=s3://bucket/a@b"]
    assert shown_arguments(arguments, FLAGS.values()) == arguments


def test_variables_of_secret_options_are_not_inherited():
    environment = {"MANTA_HTTP_RESTRICTED_API": RESTRICTION, "MANTA_HTTP_PORT": "1", "PATH": "/x"}
    conceal_variables(environment, FLAGS, "MANTA_")
    assert environment == {"MANTA_HTTP_PORT": "1", "PATH": "/x"}
