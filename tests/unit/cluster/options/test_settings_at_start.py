# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the settings a server starts with."""

from cluster.options.parsing import parse_options
from cluster.options.settings_at_start import settings_at_start
from deployments.settings.server_settings import LogSettings, ServerSettings, TraceSettings


def settings_of(*arguments: str) -> ServerSettings:
    given = ("--model-repository=/models", *arguments)
    return settings_at_start(parse_options(given, {}, lambda path: path))


def test_nothing_given_is_the_default() -> None:
    assert settings_of() == ServerSettings()


def test_log_flags_become_log_settings() -> None:
    settings = settings_of("--log-info=false", "--log-verbose=2", "--log-format=ISO8601")
    assert settings.log == LogSettings(info=False, verbose_level=2, format="ISO8601")
    assert settings_of("--verbose", "--log-format=json").log == LogSettings(
        verbose_level=1, format="json"
    )


def test_trace_config_becomes_trace_settings_and_what_clearing_goes_back_to() -> None:
    settings = settings_of(
        "--trace-config=triton,file=/tmp/t.json",
        "--trace-config=triton,log-frequency=10",
        "--trace-config=rate=5",
        "--trace-config=count=100",
        "--trace-config=level=TENSORS",
        "--trace-config=level=TIMESTAMPS",
    )
    assert settings.trace == settings.trace_at_start
    assert settings.trace == TraceSettings(("TIMESTAMPS", "TENSORS"), 5, 100, 10, "/tmp/t.json")


def test_opentelemetry_keeps_its_own_settings() -> None:
    url = "http://localhost:4318/v1/traces"
    settings = settings_of(
        "--trace-config=mode=opentelemetry", f"--trace-config=opentelemetry,url={url}"
    )
    assert (settings.trace.mode, settings.trace.extra) == ("opentelemetry", (("url", url),))
