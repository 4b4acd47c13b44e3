# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repository agents of local models: when they run, what asks for a reload, what is left behind."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from backends.api.errors import InternalError, TritonError
from cluster.controller.durable_state import DurableState
from cluster.controller.repository_source import RepositorySource
from cluster.controller.shared_files import SharedFiles
from cluster.models.override import NO_OVERRIDE, Override
from cluster.options.parsing import from_mapping
from cluster.repository.agents import registry
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.decrypt import encrypt_file
from cluster.repository.agents.registry import find_agent
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import NODE_FILES, FakeHost, write_model
from tests.support.signed_models import sign_model

KEY = Ed25519PrivateKey.generate()
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Noting:
    """Notes what it is told; a load waits until it may go on."""

    changes_files = False
    log: ClassVar[list[str]] = []
    asked: ClassVar[threading.Event]
    may_go_on: ClassVar[threading.Event]
    failed: ClassVar[threading.Event]

    @classmethod
    def begin(cls) -> None:
        cls.log = []
        cls.asked, cls.may_go_on, cls.failed = (threading.Event() for _ in range(3))
        cls.may_go_on.set()

    def act(self, action: Action, model: AgentModel) -> None:
        self.log.append(action.value)
        if action is Action.LOAD:
            self.asked.set()
            assert self.may_go_on.wait(60)
        if action is Action.LOAD_FAIL:
            self.failed.set()


@pytest.fixture(autouse=True)
def _own_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint("noting", f"{__name__}:Noting", group)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    find_agent.cache_clear()
    Noting.begin()
    yield
    find_agent.cache_clear()


async def source_of(folder: Path, host: FakeHost, **options: Any) -> RepositorySource:
    given = {
        "model_repository": str(folder / "models"),
        "disable_auto_complete_config": True,
        **options,
    }
    state = await DurableState.create(host.store)
    files = SharedFiles(host, host, NODE_FILES)
    return RepositorySource(from_mapping(given), state, host.read_cluster, files)


def write(folder: Path, *agents: dict[str, Any]) -> Path:
    """Write model m with agents."""
    write_model(folder / "models", "m")
    config = folder / "models" / "m" / "config.pbtxt"
    rows = [
        f'{{ name: "{agent.pop("name")}" parameters [ '
        + ", ".join(f'{{ key: "{key}" value: "{value}" }}' for key, value in agent.items())
        + " ] }"
        for agent in agents
    ]
    if rows:
        with config.open("a") as file:
            file.write(f" model_repository_agents {{ agents [ {', '.join(rows)} ] }}")
    (folder / "models" / "m" / "1" / "data").write_bytes(b"data")
    return folder / "models" / "m"


def encrypted(folder: Path) -> Path:
    (folder / "key").write_bytes(bytes(32))
    model = write(folder, {"name": "decrypt", "key_file": folder / "key"}, {"name": "noting"})
    encrypt_file(model / "1" / "data", model / "1" / "data.enc", bytes(32))
    (model / "1" / "data").unlink()
    return model


def signed(folder: Path) -> dict[str, Any]:
    """Sign model m and return the options that require it."""
    sign_model(folder / "models" / "m", PEM)
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "trusted.pem").write_bytes(public)
    return {"require_signed_models": True, "trusted_keys": str(folder / "trusted.pem")}


async def read(source: RepositorySource, override: Override = NO_OVERRIDE) -> Any:
    return await source.read("m", override, NO_OVERRIDE)


async def cause(source: RepositorySource, override: Override = NO_OVERRIDE) -> str:
    with pytest.raises(InternalError, match="failed to load 'm', failed to poll from") as caught:
        await read(source, override)
    assert isinstance(caught.value.__cause__, TritonError)
    return caught.value.__cause__.message


def copies(folder: Path) -> list[Path]:
    return [copy for root in (folder / "tmp").iterdir() for copy in root.iterdir()]


@in_virtual_time
async def test_a_wrong_checksum_keeps_a_model_from_being_read(folder: Path) -> None:
    write(folder, {"name": "checksum", "MD5:1/data": "invalid_checksum"})
    source = await source_of(folder, FakeHost())
    assert (await cause(source)).startswith("Mismatched MD5 hash for file 1/data, expect: invalid_")
    right = hashlib.md5(b"data").hexdigest()
    write(folder, {"name": "checksum", "MD5:1/data": right})
    candidate = await read(source)
    assert candidate.model_dir == str(folder / "models" / "m")
    assert not candidate.is_temporary


@in_virtual_time
async def test_a_model_that_is_encrypted_is_read_from_a_copy(folder: Path) -> None:
    model = encrypted(folder)
    source = await source_of(folder, FakeHost())
    candidate = await read(source)
    assert candidate.is_temporary
    assert (Path(candidate.model_dir) / "1" / "data").read_bytes() == b"data"
    assert [path.name for path in (model / "1").iterdir()] == ["data.enc"]
    again = await read(source)
    assert candidate.is_same(again)
    assert again.model_dir == candidate.model_dir
    assert Noting.log == ["LOAD"]
    await source.release(again)
    assert copies(folder) == [Path(candidate.model_dir)]
    await source.release(candidate)
    assert list((folder / "tmp").iterdir()) == []


@in_virtual_time
async def test_a_change_of_the_files_asks_for_a_reload_from_a_new_copy(folder: Path) -> None:
    model = encrypted(folder)
    source = await source_of(folder, FakeHost())
    before = await read(source)
    (model / "1" / "more").write_text("x")
    after = await read(source)
    assert not before.is_same(after)
    assert (Path(after.model_dir) / "1" / "more").is_file()
    assert Noting.log == ["LOAD", "LOAD"]


@in_virtual_time
async def test_other_agents_ask_for_a_reload(folder: Path) -> None:
    write(folder)
    source = await source_of(folder, FakeHost())
    before = await read(source)
    write(folder, {"name": "noting"})
    assert not before.is_same(await read(source))


@in_virtual_time
async def test_what_a_restarted_controller_reads_is_the_same(folder: Path) -> None:
    encrypted(folder)
    host = FakeHost()
    before = await read(await source_of(folder, host))
    Noting.log.clear()
    source = await source_of(folder, host)
    await source.adopt_files([before.model_dir])
    after = await read(source)
    assert before.is_same(after)
    assert after.model_dir == before.model_dir
    assert Noting.log == []


async def test_a_read_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    # On real threads: in virtual time none goes on by itself.
    folder = tmp_path
    encrypted(folder)
    source = await source_of(folder, FakeHost())
    Noting.may_go_on.clear()
    reading = asyncio.create_task(read(source))
    assert await asyncio.to_thread(Noting.asked.wait, 60)
    reading.cancel()
    await asyncio.wait({reading})
    Noting.may_go_on.set()
    assert await asyncio.to_thread(Noting.failed.wait, 60)
    await asyncio.gather(*source._dropping)
    assert list((folder / "tmp").iterdir()) == []


@in_virtual_time
async def test_a_copy_is_not_left_when_the_model_cannot_be_read(folder: Path) -> None:
    model = encrypted(folder)
    config = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(config.replace('name: "m"', 'name: "other"', 1))
    source = await source_of(folder, FakeHost())
    assert "unexpected directory name" in await cause(source)
    assert Noting.log == ["LOAD", "LOAD_FAIL"]
    assert list((folder / "tmp").iterdir()) == []


@in_virtual_time
async def test_files_of_a_load_go_through_agents_too(folder: Path) -> None:
    model = encrypted(folder)
    source = await source_of(folder, FakeHost(), model_control_mode="explicit")
    config = {
        "name": "m",
        "backend": "identity",
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
        "model_repository_agents": {
            "agents": [{"name": "decrypt", "parameters": {"key_file": str(folder / "key")}}]
        },
    }
    content = (model / "1" / "data.enc").read_bytes()
    given = Override(json.dumps(config), {"file:1/data.enc": content})
    candidate = await read(source, given)
    assert (Path(candidate.model_dir) / "1" / "data").read_bytes() == b"data"
    assert len(list((folder / "tmp").iterdir())) == 1
    await source.release(candidate)
    assert list((folder / "tmp").iterdir()) == []


@in_virtual_time
async def test_a_manifest_that_is_there_is_verified(folder: Path) -> None:
    model = write(folder)
    sign_model(model, PEM)
    source = await source_of(folder, FakeHost())
    await source.release(await read(source))
    (model / "1" / "data").write_bytes(b"DATA")
    assert "Mismatched SHA256 hash for file data of version 1 of model 'm'" in await cause(source)


@in_virtual_time
async def test_only_signed_models_are_read_when_that_is_required(folder: Path) -> None:
    model = write(folder)
    options = signed(folder)
    source = await source_of(folder, FakeHost(), **options)
    candidate = await read(source)
    assert candidate.is_temporary
    (model / "1" / "data").write_bytes(b"DATA")
    assert (Path(candidate.model_dir) / "1" / "data").read_bytes() == b"data"
    assert "Mismatched SHA256" in await cause(source)
    (model / "1" / "manifest.sig").unlink()
    assert "version 1 of model 'm' is not signed" in await cause(source)


@in_virtual_time
async def test_a_change_of_a_signed_config_has_to_be_signed(folder: Path) -> None:
    model = write(folder)
    source = await source_of(folder, FakeHost(), **signed(folder))
    await read(source)
    text = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(text.replace("count: 1", "count: 2"))
    assert "Mismatched SHA256 hash for file config.pbtxt of model 'm'" in await cause(source)


@in_virtual_time
async def test_a_config_of_a_load_is_refused_when_models_have_to_be_signed(folder: Path) -> None:
    write(folder)
    source = await source_of(folder, FakeHost(), **signed(folder))
    given = Override('{"backend": "identity"}')
    assert "cannot be loaded with a config that comes with the load" in await cause(source, given)
    files = Override('{"name": "m", "backend": "identity"}', {"file:1/data": b""})
    assert "is not signed" in await cause(source, files)
    assert list((folder / "tmp").iterdir()) == []


@in_virtual_time
async def test_an_unknown_agent_keeps_a_model_from_being_read(folder: Path) -> None:
    write(folder, {"name": "other"})
    source = await source_of(folder, FakeHost())
    assert "unable to find 'libtritonrepoagent_other.so' for repo agent 'other'" in await cause(
        source
    )
