# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates and plans: what is read when, and what asks for a reload."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from cluster.controller.durable_state import DurableState
from cluster.controller.repository_source import RepositorySource
from cluster.controller.shared_files import SharedFiles
from cluster.devices.inventory import Gpu, Inventory
from cluster.models.override import NO_OVERRIDE, Override
from cluster.options.parsing import from_mapping
from cluster.repository.stores.local import LocalStore
from cluster.repository.stores.opening import open_store
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import NODE_FILES, FakeHost, write_model


async def source_of(folder: Path, host: FakeHost, **options: Any) -> RepositorySource:
    given = {"model_repository": str(folder), "disable_auto_complete_config": True, **options}
    files = SharedFiles(host, host, NODE_FILES)
    state = await DurableState.create(host.store)
    return RepositorySource(from_mapping(given), state, host.read_cluster, files)


async def read(source: RepositorySource, override: Override = NO_OVERRIDE) -> Any:
    return await source.read("m", override, NO_OVERRIDE)


@in_virtual_time
async def test_models_read_at_once_share_one_look_at_the_cluster(folder: Path) -> None:
    host = FakeHost()
    write_model(folder, "m")
    source = await source_of(folder, host)
    await asyncio.gather(*(read(source) for _ in range(50)))
    assert host.looks == 1
    await asyncio.sleep(1)
    await read(source)
    assert host.looks == 2


GPUS = Inventory(
    (
        Gpu(0, 0, "GPU-old", compute_capability=(5, 2)),
        Gpu(1, 1, "GPU-new", compute_capability=(9, 0)),
    )
)


@in_virtual_time
async def test_a_gpu_of_too_low_a_compute_capability_is_not_used(folder: Path) -> None:
    host = FakeHost()
    host.devices["n"] = GPUS
    write_model(folder, "m", group="instance_group { kind: KIND_GPU }")
    source = await source_of(folder, host)
    assert (await read(source)).config.instance_group[0].gpus == (1,)


@in_virtual_time
async def test_a_group_on_such_a_gpu_is_refused_with_the_text_of_triton(folder: Path) -> None:
    host = FakeHost()
    host.devices["n"] = GPUS
    write_model(folder, "m", group="instance_group { kind: KIND_GPU gpus: [0] }")
    source = await source_of(folder, host)
    config = (await read(source)).config
    with pytest.raises(InvalidArgumentError, match=r"compatibility of 6\.000000 are: 1$"):
        source.complete(config)
    every = await source_of(folder, host, min_supported_compute_capability=5.0)
    assert every.complete((await read(every)).config).instance_group[0].gpus == (0,)


@in_virtual_time
async def test_a_look_that_failed_is_not_shared(folder: Path) -> None:
    host = FakeHost()
    write_model(folder, "m")
    source = await source_of(folder, host)
    look, source._read_cluster = source._read_cluster, _gone
    with pytest.raises(ConnectionError):
        await read(source)
    source._read_cluster = look
    await read(source)


async def _gone() -> Any:
    raise ConnectionError("the head is gone")


@in_virtual_time
async def test_a_candidate_read_again_is_the_same_until_its_files_change(folder: Path) -> None:
    write_model(folder, "m")
    source = await source_of(folder, FakeHost())
    before = await read(source)
    assert before.is_same(await read(source))
    (folder / "m" / "1" / "weights").write_text("x")
    assert not before.is_same(await read(source))


@in_virtual_time
async def test_other_options_ask_for_a_reload_and_other_groups_do_not(folder: Path) -> None:
    write_model(folder, "m")
    host = FakeHost()
    before = await read(await source_of(folder, host))
    same = await read(await source_of(folder, host))
    other = await read(await source_of(folder, host, backend_config="identity,delay=1"))
    assert before.digests == same.digests
    assert before.digests != other.digests
    write_model(folder, "m", count=3)
    assert (await read(await source_of(folder, host))).digests == before.digests


@in_virtual_time
async def test_instances_are_told_where_backend_libraries_lie(folder: Path) -> None:
    write_model(folder, "m")
    source = await source_of(folder, FakeHost(), backend_directory="some/place")
    config = (await read(source)).config
    assert source._backends.settings(config, "")["backend-directory"] == f"{Path.cwd()}/some/place"


@in_virtual_time
async def test_a_config_without_files_is_kept_with_the_digest_of_the_directory(
    folder: Path,
) -> None:
    write_model(folder, "m")
    source = await source_of(folder, FakeHost())
    config = json.dumps({"name": "m", "backend": "identity", "max_batch_size": 4} | TENSORS)
    given = await read(source, Override(config))
    assert given.config.max_batch_size == 4
    assert given.override.directory_digest
    kept = await source.read("m", NO_OVERRIDE, given.override)
    assert kept.config.max_batch_size == 4
    (folder / "m" / "1" / "weights").write_text("x")
    assert (await source.read("m", NO_OVERRIDE, given.override)).config.max_batch_size == 0


TENSORS = {
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
}


@in_virtual_time
async def test_what_cannot_be_read_has_tritons_text_and_its_cause(folder: Path) -> None:
    source = await source_of(folder, FakeHost())
    with pytest.raises(InternalError) as raised:
        await read(source)
    told, _, cause = raised.value.message.partition(": ")
    assert told == "failed to load 'm', failed to poll from model repository"
    assert "not found" in cause


@in_virtual_time
async def test_a_config_that_does_not_parse_is_told_with_file_line_and_column(
    folder: Path,
) -> None:
    write_model(folder, "m")
    (folder / "m" / "config.pbtxt").write_text('name: "m"\nmax_batchsize: 3\n')
    source = await source_of(folder, FakeHost())
    with pytest.raises(InternalError) as raised:
        await read(source)
    text = raised.value.message
    assert text.startswith("failed to load 'm', failed to poll from model repository: ")
    assert f"{folder}/m/config.pbtxt: line 2, column 1, " in text
    assert "did you mean 'max_batch_size'?" in text


@in_virtual_time
async def test_one_repository_of_two_that_is_gone_does_not_hide_the_other(folder: Path) -> None:
    write_model(folder / "a", "m")
    source = await source_of(folder, FakeHost(), model_repository=f"{folder}/a")
    assert list((await source.list_names())[0]) == ["m"]
    both = [f"{folder}/a", f"{folder}/gone"]
    source = await source_of(folder, FakeHost(), model_repository=both)
    assert list((await source.list_names())[0]) == ["m"]
    source = await source_of(folder, FakeHost(), model_repository=f"{folder}/gone")
    with pytest.raises(InternalError, match="failed to open directory"):
        await source.list_names()


@in_virtual_time
async def test_model_of_a_python_based_backend_is_planned_with_what_that_brings(
    folder: Path,
) -> None:
    backends = folder.parent / f"{folder.name}-backends"
    (backends / "scale").mkdir(parents=True)
    library = backends / "scale/model.py"
    library.touch()
    tensors = "".join(
        f'{kind} {{ name: "{kind}" data_type: TYPE_FP32 dims: [ 1 ] }} '
        for kind in ("input", "output")
    )
    (folder / "m/1").mkdir(parents=True)
    (folder / "m/config.pbtxt").write_text(f'backend: "scale" {tensors}')
    settings = ["a=0", "python,a=1", "python,b=1", "scale,b=2"]
    options = {"backend_directory": str(backends), "backend_config": settings}
    source = await source_of(folder, FakeHost(), **options)
    before = await read(source)
    assert before.config.runtime == "model.py"
    (spec,) = await source.plan(before, before.config, 1, 1, auto_complete=False)
    assert spec.backend_config == {"backend-directory": str(backends), "a": "1", "b": "2"}
    assert before.is_same(await read(source))
    library.write_text("changed = True")
    assert not before.is_same(await read(source))


@in_virtual_time
async def test_a_model_in_a_store_is_read_again_only_when_its_listing_changed(
    folder: Path,
) -> None:
    write_model(folder, "m")
    location = f"memory://{folder.name}/models"
    store = open_store(location)
    for file in LocalStore(str(folder)).find():
        if not file.path.endswith("/"):
            store.write(file.path, (folder / file.path).read_bytes())
    store.write("m/1/model.py", b"x")
    source = await source_of(folder, FakeHost(), model_repository=location)
    assert list((await source.list_names())[0]) == ["m"]
    assert source.unchanged(["m"]) == frozenset()
    candidate = await read(source)
    assert candidate.files[1].location == f"{location}/m"
    assert is_there(f"{candidate.model_dir}/config.pbtxt")
    await source.list_names()
    assert source.unchanged(["m"]) == {"m"}
    store.write("m/1/weights", b"x")
    assert list((await source.list_names(max_age_s=60))[0]) == ["m"]
    assert source.unchanged(["m"]) == {"m"}
    await source.list_names()
    assert source.unchanged(["m"]) == frozenset()
    await source.release(candidate)
    assert not is_there(candidate.model_dir)


@pytest.mark.parametrize(
    ("group", "is_read_again"),
    [
        ("instance_group { kind: KIND_CPU }", False),
        ("instance_group { kind: KIND_MODEL }", False),
        ("instance_group { kind: KIND_AUTO }", True),
        ("instance_group { kind: KIND_AUTO gpus: [3] }", True),
        ("max_batch_size: 0", True),
    ],
)
def test_only_models_that_gpus_concern_are_read_again_when_one_comes_or_goes(
    group: str, is_read_again: bool, tmp_path: Path
) -> None:
    @in_virtual_time
    async def check(folder: Path) -> None:
        write_model(folder, "m", group=group)
        location = f"memory://{folder.name}-{len(group)}/models"
        store, config = open_store(location), folder / "m" / "config.pbtxt"
        store.write("m/config.pbtxt", config.read_bytes())
        store.write("m/1/model.py", b"x")
        host = FakeHost()
        source = await source_of(folder, host, model_repository=location)
        await source.list_names()
        await read(source)
        host.devices["n"] = GPUS
        await asyncio.sleep(1)
        await source.look_at_cluster()
        assert source.unchanged(["m"]) == (frozenset() if is_read_again else {"m"})

    check(tmp_path)


def is_there(path: str) -> bool:
    return Path(path).exists()
