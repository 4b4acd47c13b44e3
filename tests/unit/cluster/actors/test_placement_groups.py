# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which placement groups there are, by what their names say."""

from dataclasses import replace
from typing import Any

import pytest
from ray.exceptions import RayError

from cluster.actors.placement_groups import (
    ask_for_node,
    create_group,
    remove_group,
    remove_groups,
    withdraw_node,
)
from deployments.instance.spec import Gang, InstanceSpec
from tests.support.fake_ray import FakeRay
from tests.support.instance_host import spec


def gang(index: int = 0, **changes: Any) -> InstanceSpec:
    two = Gang(({"GPU": 1.0}, {"GPU": 1.0}), "STRICT_SPREAD")
    return replace(spec(index), gang=two, **changes)


def test_a_gang_has_a_group_of_its_bundles_that_outlives_the_controller(fake: FakeRay) -> None:
    create_group(gang())
    fake.end_job()
    (row,) = fake.groups.values()
    assert (row["state"], row["strategy"]) == ("PENDING", "STRICT_SPREAD")
    assert row["bundles"] == [{"GPU": 1.0}, {"GPU": 1.0}]
    assert row["bundle_label_selector"] is None


def test_each_bundle_of_a_gang_lies_where_the_labels_of_the_model_say(fake: FakeRay) -> None:
    create_group(gang(label_selector={"zone": "a"}))
    (row,) = fake.groups.values()
    assert row["bundle_label_selector"] == [{"zone": "a"}, {"zone": "a"}]


def test_an_instance_without_a_gang_reserves_nothing(fake: FakeRay) -> None:
    with pytest.raises(ValueError, match="reserves no bundles"):
        create_group(spec())
    assert not fake.groups


def test_what_an_earlier_attempt_has_left_gives_the_name_free(fake: FakeRay) -> None:
    create_group(gang())
    create_group(gang())
    assert fake.waiting_groups() == [f"manta:{gang().name}"]


def test_only_the_group_of_that_instance_is_removed(fake: FakeRay) -> None:
    create_group(gang(0))
    create_group(gang(1))
    fake.placement_group([{"CPU": 1.0}], name=gang(0).name)
    remove_group(gang(0).name)
    assert fake.waiting_groups() == [f"manta:{gang(1).name}", gang(0).name]


def test_a_group_that_is_gone_is_no_error(fake: FakeRay) -> None:
    remove_group(gang().name)
    withdraw_node("k")
    assert not fake.groups


def test_groups_of_instances_that_are_gone_are_removed_and_those_of_others_stay(
    fake: FakeRay,
) -> None:
    for index in range(3):
        create_group(gang(index))
    fake.placement_group([{"CPU": 1.0}], name="somebody else's")
    remove_groups({gang(1).name})
    assert fake.waiting_groups() == [f"manta:{gang(1).name}", "somebody else's"]


def test_a_node_is_asked_for_once_by_key_as_often_as_it_is_asked_for(fake: FakeRay) -> None:
    ask_for_node("k", {"CPU": 1.0}, {})
    ask_for_node("k", {"CPU": 2.0}, {"zone": "a"})
    ask_for_node("l", {"CPU": 3.0}, {})
    found = [row for row in fake.groups.values() if row["state"] == "PENDING"]
    assert [row["bundles"] for row in found] == [[{"CPU": 2.0}], [{"CPU": 3.0}]]
    assert found[0]["bundle_label_selector"] == [{"zone": "a"}]


def test_a_node_is_asked_for_until_that_is_withdrawn(fake: FakeRay) -> None:
    ask_for_node("k", {"CPU": 1.0}, {})
    ask_for_node("l", {"CPU": 1.0}, {})
    withdraw_node("k")
    assert fake.waiting_groups() == ["manta:node l"]


def test_a_node_is_asked_for_no_longer_than_its_controller_lives(fake: FakeRay) -> None:
    ask_for_node("k", {"CPU": 1.0}, {})
    fake.end_job()
    assert not fake.waiting_groups()


def test_requests_of_an_earlier_controller_leave_with_the_groups_of_dead_instances(
    fake: FakeRay,
) -> None:
    ask_for_node("k", {"CPU": 1.0}, {})
    remove_groups(())
    assert not fake.waiting_groups()


def test_a_head_that_is_away_is_an_error_of_ray(fake: FakeRay) -> None:
    fake.is_away = True
    with pytest.raises(RayError):
        create_group(gang())
