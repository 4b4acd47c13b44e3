# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the settings that clients may change."""

import msgspec
import pytest

from backends.api.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from deployments.settings.server_settings import (
    MAX_REGION_NAME_CHARACTERS,
    MAX_REGIONS,
    LogChange,
    Region,
    RegionAdded,
    RegionRemoved,
    ServerSettings,
    TraceChange,
    TraceSettings,
    TraceUse,
    changed,
)

TIMESTAMPS = ("TIMESTAMPS",)


def traced(**values: object) -> ServerSettings:
    trace = TraceSettings(file="t.json", **values)  # type: ignore[arg-type]
    return ServerSettings(trace=trace, trace_at_start=trace)


def test_log_change_sets_only_what_it_names() -> None:
    settings = changed(ServerSettings(), LogChange({"info": False, "verbose_level": 2}))
    assert (settings.log.info, settings.log.warning, settings.log.verbose_level) == (False, True, 2)


def test_model_follows_the_server_in_what_it_does_not_set() -> None:
    settings = changed(traced(), TraceChange("m", {"rate": 7}))
    settings = changed(settings, TraceChange("", {"rate": 9, "count": 3}))
    assert (settings.trace_of("m").rate, settings.trace_of("m").count) == (7, 3)
    settings = changed(settings, TraceChange("m", {"rate": None}))
    assert settings.trace_of("m") == settings.trace


def test_cleared_server_setting_goes_back_to_the_start() -> None:
    settings = changed(traced(rate=5), TraceChange("", {"rate": 9, "level": TIMESTAMPS}))
    settings = changed(settings, TraceChange("", {"rate": None, "level": None}))
    assert settings.trace == settings.trace_at_start


def test_the_count_shown_is_what_all_replicas_left() -> None:
    settings = traced(level=TIMESTAMPS, rate=1, count=9)
    for replica, used in (("a", 2), ("b", 3), ("a", 4)):
        settings = changed(settings, TraceUse("", replica, used, settings.trace.revision))
    assert settings.trace_of("m").count == 2
    # A change of something else keeps what is left, and what was taken before it is settled.
    settings = changed(settings, TraceChange("", {"rate": 2}))
    assert settings.trace_of("m").count == 2
    settings = changed(settings, TraceUse("", "a", 5, settings.trace.revision - 1))
    assert settings.trace_of("m").count == 2
    assert changed(settings, TraceChange("", {"count": 7})).trace_of("m").count == 7


def test_a_model_with_settings_of_its_own_has_a_count_of_its_own() -> None:
    settings = changed(traced(level=TIMESTAMPS, rate=1, count=9), TraceChange("m", {"rate": 2}))
    assert (settings.trace_key("m"), settings.trace_key("other")) == ("m", "")
    revision = settings.configured_trace("m").revision
    settings = changed(settings, TraceUse("m", "a", 4, revision))
    assert (settings.trace_of("m").count, settings.trace_of("other").count) == (5, 9)
    settings = changed(settings, TraceChange("m", {"rate": None}))
    assert settings.trace_key("m") == ""
    assert settings.trace_of("m").count == 9


@pytest.mark.parametrize(
    ("settings", "values", "text"),
    [
        (
            ServerSettings(),
            {"level": TIMESTAMPS},
            "Attempting to set invalid trace setting :trace file name is not given",
        ),
        (
            traced(),
            {"level": TIMESTAMPS, "rate": 0},
            "Attempting to set invalid trace setting :sample rate must be non-zero",
        ),
        (
            traced(mode="opentelemetry"),
            {"level": ("TENSORS",)},
            "Tensor level tracing is not supported by the mode: opentelemetry",
        ),
    ],
)
@pytest.mark.parametrize("model", ["", "m"])
def test_trace_settings_that_cannot_work_are_refused(
    settings: ServerSettings, values: dict[str, object], text: str, model: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        changed(settings, TraceChange(model, values))
    assert caught.value.message == text


def test_region_is_registered_once_until_it_is_removed() -> None:
    region = Region("r", "/k", 0, 8)
    settings = changed(ServerSettings(), RegionAdded(region))
    with pytest.raises(AlreadyExistsError, match="shared memory region 'r' already in manager"):
        changed(settings, RegionAdded(region))
    assert changed(settings, RegionRemoved("other")) == settings
    assert changed(settings, RegionRemoved("r")).regions == {}
    assert changed(settings, RegionRemoved("")).regions == {}


def test_regions_of_both_kinds_share_names_and_are_removed_by_kind() -> None:
    system, cuda = Region("s", "/k", 0, 8), Region("c", "", 0, 8, device_id=0)
    settings = changed(changed(ServerSettings(), RegionAdded(system)), RegionAdded(cuda))
    with pytest.raises(AlreadyExistsError):
        changed(settings, RegionAdded(Region("s", "", 0, 8, device_id=0)))
    assert changed(settings, RegionRemoved("c")) == settings
    assert changed(settings, RegionRemoved("s", is_cuda=True)) == settings
    assert changed(settings, RegionRemoved("", is_cuda=True)).regions == {"s": system}
    assert changed(settings, RegionRemoved("")).regions == {"c": cuda}


def test_instances_hear_of_logs_and_of_each_object_once() -> None:
    settings = changed(ServerSettings(), RegionAdded(Region("a", "/k", 0, 8, "", "k")))
    settings = changed(settings, RegionAdded(Region("b", "/k", 8, 8, "", "k")))
    assert settings.for_instances().region_sources == ("k",)


def test_settings_survive_a_controller_restart() -> None:
    settings = changed(traced(level=TIMESTAMPS), TraceChange("m", {"rate": 7}))
    settings = changed(settings, RegionAdded(Region("a", "/k", 0, 8)))
    settings = changed(settings, RegionAdded(Region("b", "", 0, 8, device_id=0)))
    stored = msgspec.msgpack.encode(settings)
    assert msgspec.msgpack.decode(stored, type=ServerSettings) == settings


def test_regions_are_bounded_in_number() -> None:
    region = Region("r", "/key", 0, 64)
    full = ServerSettings(regions={str(number): region for number in range(MAX_REGIONS)})
    with pytest.raises(ResourceExhaustedError, match="unregister those"):
        changed(full, RegionAdded(region))
    freed = changed(full, RegionRemoved("7"))
    assert len(changed(freed, RegionAdded(region)).regions) == MAX_REGIONS


def test_names_of_regions_are_bounded() -> None:
    longest = Region("r" * MAX_REGION_NAME_CHARACTERS, "/key", 0, 64)
    assert longest.name in changed(ServerSettings(), RegionAdded(longest)).regions
    longer = Region(longest.name + "r", "/key", 0, 64)
    with pytest.raises(InvalidArgumentError, match="1025 characters"):
        changed(ServerSettings(), RegionAdded(longer))
