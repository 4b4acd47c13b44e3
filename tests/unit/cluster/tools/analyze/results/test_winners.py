# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best configurations as directories that can be served."""

import pytest

from backends.api.errors import AlreadyExistsError, NotFoundError
from backends.config.pbtxt import parse_pbtxt
from cluster.tools.analyze.objectives import Goal, Judge
from cluster.tools.analyze.records import Candidate, Setting
from cluster.tools.analyze.results.rows import Found
from cluster.tools.analyze.results.winners import require_empty, write_winner
from cluster.tools.analyze.space.variants import VariantNames

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
    VariantNames(),
)
CANDIDATE = Candidate((Setting("leaf", (("instance_group.count", 3),)), Setting("tree")))


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
    assert [path.name for path in paths] == ["leaf_config_0", "tree_config_default"]
    leaf = parse_pbtxt((out / "leaf_config_0" / "config.pbtxt").read_text(), "x")
    assert (leaf.name, leaf.instance_group[0].count) == ("leaf_config_0", 3)
    tree = parse_pbtxt((out / "tree_config_default" / "config.pbtxt").read_text(), "x")
    assert [step.model_name for step in tree.ensemble_steps] == ["leaf_config_0"]
    assert (out / "leaf_config_0" / "labels.txt").read_text() == "a\nb\n"
    deep = out / "leaf_config_0" / "1" / "deep" / "config.pbtxt"
    assert deep.read_text() == "a file of its own"
    assert not (out / "leaf_config_0" / "configs").exists()
    assert (repository / "leaf" / "config.pbtxt").read_text() == "the old one"


def test_a_variant_replaces_that_of_an_earlier_analysis(repository, tmp_path):
    stale = tmp_path / "out" / "leaf_config_0"
    stale.mkdir(parents=True)
    (stale / "stale").write_text("")
    write_winner(FOUND, CANDIDATE, [repository], tmp_path / "out")
    assert not (stale / "stale").exists()
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "leaf_config_0",
        "tree_config_default",
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
