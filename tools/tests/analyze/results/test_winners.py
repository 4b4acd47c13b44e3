# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best configurations as directories that can be served."""

from dataclasses import replace

import pytest

from backends.api.errors import AlreadyExistsError, NotFoundError
from backends.config.pbtxt import parse_pbtxt
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.records import Candidate, Setting
from manta_tools.analyze.results.rows import Found
from manta_tools.analyze.results.winners import (
    require_empty,
    served_directories,
    write_winner,
)
from manta_tools.analyze.space.variants import VariantNames

LEAF = parse_pbtxt('name: "leaf" backend: "python" max_batch_size: 8', "leaf")
TREE = parse_pbtxt(
    'name: "tree" platform: "ensemble" max_batch_size: 8 ensemble_scheduling { step '
    '{ model_name: "leaf" model_version: -1 input_map { key: "A" value: "A" } } }',
    "tree",
)
FOUND = Found(
    ("tree",),
    Judge((Goal("tree"),)),
    (),
    {"leaf": LEAF, "tree": TREE},
    {"tree": ("leaf",)},
    VariantNames({"tree": ("leaf",)}),
)
CANDIDATE = Candidate((Setting("leaf", (("instance_group.count", 3),)), Setting("tree")))

# The code of a BLS model names the leaf.
CALLER = parse_pbtxt('name: "tree" backend: "python" max_batch_size: 8', "tree")
BLS = replace(
    FOUND, configs={"leaf": LEAF, "tree": CALLER}, names=VariantNames({"tree": ("leaf",)})
)
OTHER = Candidate((Setting("leaf", (("instance_group.count", 5),)), Setting("tree")))


@pytest.fixture
def repository(tmp_path):
    for name in ("leaf", "tree"):
        (tmp_path / "models" / name / "1" / "deep").mkdir(parents=True)
        (tmp_path / "models" / name / "configs").mkdir()
        (tmp_path / "models" / name / "configs" / "other.pbtxt").write_text("")
        (tmp_path / "models" / name / "config.pbtxt").write_text("the old one")
    (tmp_path / "models" / "leaf" / "1" / "deep" / "config.pbtxt").write_text("a file of its own")
    (tmp_path / "models" / "leaf" / "labels.txt").write_text("a\nb\n")
    return tmp_path / "models"


def test_variants_have_the_models_files_and_steps_that_name_variants(repository, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    paths = write_winner(FOUND, CANDIDATE, [tmp_path / "none", repository], out)
    assert [path.name for path in paths] == ["leaf_config_0", "tree_config_0"]
    leaf = parse_pbtxt((out / "leaf_config_0" / "config.pbtxt").read_text(), "x")
    assert (leaf.name, leaf.instance_group[0].count) == ("leaf_config_0", 3)
    tree = parse_pbtxt((out / "tree_config_0" / "config.pbtxt").read_text(), "x")
    assert [step.model_name for step in tree.ensemble_steps] == ["leaf_config_0"]
    assert (out / "leaf_config_0" / "labels.txt").read_text() == "a\nb\n"
    deep = out / "leaf_config_0" / "1" / "deep" / "config.pbtxt"
    assert deep.read_text() == "a file of its own"
    assert not (out / "leaf_config_0" / "configs").exists()
    assert (repository / "leaf" / "config.pbtxt").read_text() == "the old one"


def test_a_bls_model_has_a_repository_where_all_keep_the_names_that_its_code_calls(
    repository, tmp_path
):
    out = tmp_path / "out"
    for _ in range(2):
        write_winner(BLS, CANDIDATE, [repository], out)
    inner = out / "tree_config_0" / "repository"
    assert served_directories(BLS, CANDIDATE, out) == [inner]
    assert {each.name for each in inner.iterdir()} == {"leaf", "tree"}
    leaf = parse_pbtxt((inner / "leaf" / "config.pbtxt").read_text(), "x")
    assert (leaf.name, leaf.instance_group[0].count) == ("leaf", 3)
    assert parse_pbtxt((inner / "tree" / "config.pbtxt").read_text(), "x").name == "tree"
    assert (inner / "leaf" / "1" / "deep" / "config.pbtxt").read_text() == "a file of its own"
    assert (out / "leaf_config_0" / "labels.txt").exists()


def test_two_winners_of_an_ensemble_each_have_their_own_steps(repository, tmp_path):
    for candidate in (CANDIDATE, OTHER):
        write_winner(FOUND, candidate, [repository], tmp_path)
    for number in range(2):
        tree = parse_pbtxt((tmp_path / f"tree_config_{number}" / "config.pbtxt").read_text(), "x")
        assert [step.model_name for step in tree.ensemble_steps] == [f"leaf_config_{number}"]


def test_two_winners_of_a_bls_model_do_not_share_what_they_call(repository, tmp_path):
    counts = []
    for candidate in (CANDIDATE, OTHER):
        write_winner(BLS, candidate, [repository], tmp_path / "out")
    for candidate in (CANDIDATE, OTHER):
        (inner,) = served_directories(BLS, candidate, tmp_path / "out")
        config = parse_pbtxt((inner / "leaf" / "config.pbtxt").read_text(), "x")
        counts.append(config.instance_group[0].count)
    assert counts == [3, 5]


def test_other_models_are_served_from_the_folder_itself(tmp_path):
    assert served_directories(FOUND, CANDIDATE, tmp_path) == [tmp_path]


def test_a_variant_replaces_that_of_an_earlier_analysis(repository, tmp_path):
    stale = tmp_path / "out" / "leaf_config_0"
    stale.mkdir(parents=True)
    (stale / "stale").write_text("")
    write_winner(FOUND, CANDIDATE, [repository], tmp_path / "out")
    assert not (stale / "stale").exists()
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "leaf_config_0",
        "tree_config_0",
    }


def test_models_without_a_directory_are_refused(tmp_path):
    with pytest.raises(NotFoundError, match="model 'leaf' has no directory in"):
        write_winner(FOUND, CANDIDATE, [tmp_path], tmp_path / "out")


def test_a_repository_that_holds_something_is_kept(tmp_path):
    require_empty(tmp_path / "new", is_replaced=False)
    require_empty(tmp_path, is_replaced=False)
    (tmp_path / "mine").mkdir()
    require_empty(tmp_path, is_replaced=True)
    with pytest.raises(AlreadyExistsError, match="is not empty"):
        require_empty(tmp_path, is_replaced=False)
