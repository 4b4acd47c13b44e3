# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from deployments.supervision.peer_limit import PeerLimit, host_of


def test_a_peer_gets_as_many_connections_as_the_limit_and_one_more_for_each_that_closes():
    limit = PeerLimit[int](2)
    assert [limit.opened(each, "10.0.0.1") for each in (1, 2, 3)] == [True, True, False]
    assert limit.opened(4, "10.0.0.2")
    limit.closed(3)  # Was never counted.
    assert not limit.opened(3, "10.0.0.1")
    limit.closed(1)
    assert limit.opened(5, "10.0.0.1")


def test_without_a_limit_or_an_address_nothing_is_counted():
    assert all(PeerLimit[int](0).opened(each, "10.0.0.1") for each in range(100))
    assert all(PeerLimit[int](1).opened(each, "") for each in range(100))
    assert host_of("") == host_of(None) == ""
    assert host_of(("::1", 5, 0, 0)) == "::1"
