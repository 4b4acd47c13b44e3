# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes between nodes under TLS: on with Ray's, mutual, and with Ray's files."""

import ssl
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.lane.tls import LaneTls, read_lane_tls
from tests.support.certificates import make_certificates
from tests.support.lane_rig import Handler, Rig, Sink, echo, request_of, until

LARGE = 300_000


def _environment(folder: Path, who: str = "server", root: str = "root.pem") -> dict[str, str]:
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / f"{who}.pem"),
        "RAY_TLS_SERVER_KEY": str(folder / f"{who}.key"),
        "RAY_TLS_CA_CERT": str(folder / root),
    }


def _tls(folder: Path, who: str = "server") -> LaneTls:
    tls = read_lane_tls(_environment(folder, who))
    assert tls is not None
    return tls


@pytest.mark.parametrize("who", ["server", "client"])
def test_lanes_between_nodes_are_encrypted_with_the_files_of_ray(run, tmp_path, who):
    make_certificates(tmp_path)

    async def main():
        async with Rig(Handler(echo), same_node=False, tls=_tls(tmp_path).server) as rig:
            lane = await rig.connect(tls=_tls(tmp_path, who).client)
            for size in (64, LARGE, 3 << 20):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                assert bytes(sink.responses[0].outputs[0].data) == b"x" * size
            lane.close()
            await rig.all_gone()

    run(main)


def _client_without_certificate(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "root.pem")


def _client_of_another_authority(folder: Path) -> ssl.SSLContext:
    return _tls(folder, "stranger").client


def _no_tls(folder: Path) -> None:
    del folder


@pytest.mark.parametrize(
    "context", [_client_without_certificate, _client_of_another_authority, _no_tls]
)
def test_a_router_without_a_certificate_of_the_cluster_gets_no_lane(run, tmp_path, context):
    make_certificates(tmp_path)

    async def main():
        async with Rig(Handler(echo), same_node=False, tls=_tls(tmp_path).server) as rig:
            with pytest.raises(UnavailableError):
                await rig.connect(tls=context(tmp_path))
            await until(lambda: not rig.lanes)

    run(main)


def test_an_instance_without_a_certificate_of_the_cluster_gets_no_lane(run, tmp_path):
    make_certificates(tmp_path)

    async def main():
        theirs = _tls(tmp_path, "stranger").server
        async with Rig(Handler(echo), same_node=False, tls=theirs) as rig:
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                await rig.connect(tls=_tls(tmp_path).client)
            await until(lambda: not rig.lanes)

    run(main)


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_lanes_are_in_clear_text_while_ray_does_without_tls(tmp_path, value):
    assert read_lane_tls(_environment(tmp_path) | {"RAY_USE_TLS": value}) is None
    assert read_lane_tls({}) is None


@pytest.mark.parametrize("name", ["RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"])
def test_a_file_that_is_missing_or_wrong_is_named(tmp_path, name):
    make_certificates(tmp_path)
    complete = _environment(tmp_path)
    with pytest.raises(InvalidArgumentError, match=f"{name} is missing"):
        read_lane_tls(complete | {name: ""})
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    with pytest.raises(InvalidArgumentError, match=f"{name} '.*wrong.pem'"):
        read_lane_tls(complete | {name: str(wrong)})


def test_a_key_with_a_pass_phrase_is_refused_without_a_prompt(tmp_path):
    made = make_certificates(tmp_path)
    with pytest.raises(InvalidArgumentError, match="RAY_TLS_SERVER_KEY"):
        read_lane_tls(_environment(tmp_path) | {"RAY_TLS_SERVER_KEY": str(made.encrypted_key)})
