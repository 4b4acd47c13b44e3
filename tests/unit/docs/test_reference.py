# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The reference pages are what the script makes of the code's tables, and leave nothing out."""

import re
from pathlib import Path

import pytest

from cluster.options.table import FLAGS
from scripts import make_reference

METRICS = Path(__file__).resolve().parents[3] / "deployments/metrics"


@pytest.mark.parametrize("name", make_reference.PAGES)
def test_a_page_is_what_the_script_makes(name: str) -> None:
    page = (make_reference.FOLDER / name).read_text()
    assert page == make_reference.PAGES[name](), "run: python scripts/make_reference.py"


def test_the_folder_has_no_other_page() -> None:
    assert {path.name for path in make_reference.FOLDER.iterdir()} == set(make_reference.PAGES)


def test_every_flag_has_a_row() -> None:
    rows = re.findall(r"^\| `--([\w-]+)` \|", make_reference.flags(), re.MULTILINE)
    assert rows == [flag.name for flag in FLAGS.values()]


def test_every_metric_that_the_code_names_has_a_row() -> None:
    named = {
        name
        for path in METRICS.glob("*.py")
        for name in re.findall(r'"((?:nv|manta)_[a-z_]*[a-z])"', path.read_text())
    }
    assert len(named) > 50
    assert {name for name in named if f"| `{name}` |" not in make_reference.metrics()} == set()


def test_parameters_of_a_family_and_nested_keys_have_rows() -> None:
    page = make_reference.model_config()
    for name in (
        "placement.strategy",
        "autoscaling.min_instances",
        "admission.mode",
        "dynamic_batching.default_queue_policy.max_queue_size",
        "parameters.value.string_value",
    ):
        assert f"| `{name}` |" in page
