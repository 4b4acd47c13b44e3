# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import UnavailableError
from deployments.settings.port_range import ANY_PORT, PortRange, read_port_range
from tests.support.free_ports import free_ports

PORTS = st.integers(1, 65535)


@given(PORTS, PORTS)
def test_a_range_is_read_as_it_is_written(one, other):
    ports = PortRange(min(one, other), max(one, other))
    assert read_port_range(str(ports)) == ports


def test_nothing_is_any_port():
    assert read_port_range("") == ANY_PORT


@pytest.mark.parametrize(
    "text", ["20000", "0-10", "20-10", "1-65536", "a-b", "-5", "1-2-3", " 1-2", "1-\u0662"]
)
def test_what_is_no_range_is_refused_with_the_form_expected(text):
    with pytest.raises(ValueError, match="expected <first>-<last>"):
        read_port_range(text)


def test_every_port_of_a_range_is_used_and_then_the_flag_is_named():
    ports = free_ports(3)
    with ExitStack() as opened:
        taken = {
            opened.enter_context(ports.listen("127.0.0.1", 1)).getsockname()[1] for _ in range(3)
        }
        assert taken == set(range(ports.first, ports.last + 1))
        with pytest.raises(UnavailableError, match=f"all 3 of --lane-port-range={ports}"):
            ports.listen("127.0.0.1", 1)


def test_a_port_that_is_given_back_is_taken_again():
    ports = free_ports(1)
    ports.listen("127.0.0.1", 1).close()
    with ports.listen("127.0.0.1", 1) as sock:
        assert sock.getsockname()[1] == ports.first


def test_an_address_of_another_machine_is_no_matter_of_ports():
    with pytest.raises(OSError, match="assign"):
        PortRange(61000, 64000).listen("192.0.2.1", 1)


def test_any_port_is_the_systems_choice():
    with ANY_PORT.listen("127.0.0.1", 1) as sock:
        assert sock.getsockname()[1] > 0
