# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that integration tests share, one start each: what dies, and who may ask what."""

import secrets
from collections.abc import Iterator

import pytest

from tests.support.certificates import Certificates, make_certificates
from tests.support.expendable_server import ExpendableServer
from tests.support.policed_server import PolicedServer
from tests.support.server import RunningServer


@pytest.fixture(scope="session")
def expendable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExpendableServer]:
    """The server of modules that kill instances, ingresses and controllers."""
    # That module has the fixtures of this one.
    from tests.integration.conftest import write_add_sub

    repository = tmp_path_factory.mktemp("expendable")
    write_add_sub(repository, "add_sub", instances=2)
    write_add_sub(repository, "other")
    server = ExpendableServer(repository)
    yield server
    server.close()


@pytest.fixture
def expendable(expendable_server: ExpendableServer) -> Iterator[RunningServer]:
    """That server, which is whole again, or is another one, when the next test begins."""
    yield expendable_server.running
    expendable_server.settle()


@pytest.fixture(scope="session")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicedServer]:
    """A server with an access policy on Unix sockets; modules bring policies and models."""
    folder = tmp_path_factory.mktemp("policed")
    path = folder / "http.sock"
    server = PolicedServer(
        folder,
        f"--http-address=unix:{path}",
        f"--grpc-address=unix:@manta-{secrets.token_hex(8)}",
        "--unix-socket-mode=0600",
    )
    yield server
    server.close()
    assert not path.exists()


@pytest.fixture(scope="session")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("pems"))


@pytest.fixture(scope="session")
def encrypted(
    pems: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PolicedServer]:
    """A server with an access policy and TLS, which asks for certificates."""
    server = PolicedServer(
        tmp_path_factory.mktemp("encrypted"),
        *pems.flags("http"),
        *pems.flags("grpc"),
        f"--http-root-cert={pems.root}",
        f"--grpc-root-cert={pems.root}",
        pems=pems,
    )
    yield server
    server.close()


@pytest.fixture(scope="session")
def namespaced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of two repositories with namespaces and one ingress; none of its models is loaded.

    Namespaces change nothing for models whose names are there once.
    """
    from tests.integration.test_namespacing import write_ensemble, write_model

    folder = tmp_path_factory.mktemp("namespaced")
    for name in ("add", "sub"):
        write_model(folder / name, f"part_{name}", 1)
        write_ensemble(folder / name, "both", f"part_{name}")
    running = RunningServer(
        folder / "add",
        f"--model-repository={folder / 'sub'}",
        "--model-namespacing=true",
        "--model-control-mode=explicit",
    )
    yield running
    assert running.terminate() == 0
