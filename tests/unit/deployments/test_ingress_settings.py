# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an ingress is told when it starts."""

from deployments.ingress_settings import IngressSettings

HTTP, OPENAI = ("127.0.0.1", 8000), ("127.0.0.1", 9000)


def test_addresses_are_those_of_the_protocols_that_are_on() -> None:
    one = IngressSettings(http=HTTP, grpc=None, metrics=None)
    assert one.addresses == {"http": HTTP}
    both = IngressSettings(http=HTTP, grpc=None, metrics=None, openai=OPENAI)
    assert both.addresses == {"http": HTTP, "openai": OPENAI}


def test_headers_that_open_apis_are_known_by_their_lower_case() -> None:
    settings = IngressSettings(
        http_restrictions=((("health",), "X-Key", "a"),),
        grpc_restrictions=((("health",), "Other", "b"),),
    )
    assert settings.restricted_headers == {"x-key", "triton-grpc-protocol-other"}


def test_a_drain_takes_the_delay_and_the_exit_timeout() -> None:
    settings = IngressSettings(drain_delay_s=2.0, exit_timeout_s=7.0)
    times = settings.drain_times
    assert (times.delay_s, times.exit_s) == (2.0, 7.0)
