# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.model_config import VersionPolicy
from cluster.repository.version_policy import find_versions, select_versions


def test_only_plain_numbers_are_versions():
    names = ["1", "10", "0", "007", "v1", "-1", " 2", "1.0", "²", "9" * 20]
    versions, warnings = find_versions(names)
    assert versions == (0, 1, 10)
    assert len(warnings) == len(names) - len(versions)
    assert (
        "ignore version directory '007' which contains leading zeros in its directory name"
        in warnings
    )
    assert "ignore version directory 'v1' which fails to convert to integral number" in warnings


def test_data_directories_are_skipped_silently():
    assert find_versions(["warmup", "initial_state", "configs", "__pycache__"]) == ((), ())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (VersionPolicy(), (4,)),
        (VersionPolicy("latest", 2), (2, 4)),
        (VersionPolicy("latest", 9), (1, 2, 4)),
        (VersionPolicy("latest", 0), ()),
        (VersionPolicy("all"), (1, 2, 4)),
        (VersionPolicy("specific", versions=(4, 1, 4)), (1, 4)),
    ],
)
def test_policy_selects_versions(policy: VersionPolicy, expected: tuple[int, ...]):
    assert select_versions("m", policy, (4, 1, 2)) == (expected, ())


def test_a_specific_version_that_is_missing_is_a_warning():
    chosen, warnings = select_versions("m", VersionPolicy("specific", versions=(1, 3)), (1, 2))
    assert chosen == (1,)
    assert warnings == (
        "version 3 is specified for model 'm', but the version directory is not present",
    )


@given(st.sets(st.integers(0, 50)), st.integers(0, 10))
def test_latest_takes_the_highest(available: set[int], count: int):
    chosen, _ = select_versions("m", VersionPolicy("latest", count), available)
    assert len(chosen) == min(count, len(available))
    assert set(chosen) <= available
    assert not chosen or min(chosen) > max(available - set(chosen), default=-1)
