# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ports that are Unix sockets, as flags."""

import pytest

from cluster.options.parsing import OptionError, from_mapping

REPOSITORY = {"model_repository": "/models"}


def _refusal(**given: object) -> str:
    with pytest.raises(OptionError) as caught:
        from_mapping({**REPOSITORY, **given})
    return str(caught.value)


def test_http_and_grpc_may_be_unix_sockets_and_metrics_stay_on_this_machine() -> None:
    options = from_mapping(
        {**REPOSITORY, "http_address": "unix:/run/http", "grpc_address": "unix:@grpc"}
    )
    assert options.metrics_address == "127.0.0.1"
    assert options.unix_socket_mode == "0660"


def test_two_protocols_cannot_have_the_same_socket() -> None:
    text = _refusal(http_address="unix:/run/s", grpc_address="unix:/run/s")
    assert "HTTP requests and GRPC requests" in text


def test_several_ingresses_of_a_node_cannot_share_a_socket() -> None:
    text = _refusal(http_address="unix:/run/s", ingress_per_node=2)
    assert "--ingress-per-node" in text


def test_a_relative_path_is_no_address() -> None:
    assert "expected unix:/<path>" in _refusal(grpc_address="unix:s")


@pytest.mark.parametrize("mode", ["0888", "rw", "-1", "01777"])
def test_a_mode_is_of_octal_permissions(mode: str) -> None:
    assert "expected permissions in octal" in _refusal(unix_socket_mode=mode)
