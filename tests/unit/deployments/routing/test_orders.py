# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The order of responses with ``preserve_ordering``, where there are tenants."""

from backends.api.request import InferenceResponse
from deployments.routing.ordered_sink import OrderedSink, Orders


class Sink:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self.told.append(self.name)


def test_each_tenant_keeps_its_order_and_none_waits_for_another() -> None:
    orders, told = Orders(), []
    names = ["a1", "b1", "a2", "b2", "1", "2"]
    sinks = {name: OrderedSink(orders.of(name[:-1]), Sink(name, told)) for name in names}
    for name in ("b2", "b1", "2", "a1", "1", "a2"):
        sinks[name].respond(None, final=True)
    assert told == ["b1", "b2", "a1", "1", "2", "a2"]


def test_orders_of_tenants_with_nothing_under_way_are_bounded() -> None:
    orders, told = Orders(), []
    waiting = OrderedSink(orders.of("w"), Sink("w", told))
    for at in range(1000):
        OrderedSink(orders.of(f"t{at}"), Sink("x", told)).respond(None, final=True)
    assert len(orders._by_tenant) <= 65
    OrderedSink(orders.of("w"), Sink("later", told)).respond(None, final=True)
    waiting.respond(None, final=True)
    assert told[-2:] == ["w", "later"]
