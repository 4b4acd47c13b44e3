# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From the text of one option value to the value, with tritonserver's formats and texts.

Triton: server/src/command_line_parser.cc @e1db8a6
"""

import re
from collections.abc import Callable

from deployments.settings.host_policy import SETTINGS as HOST_POLICY_SETTINGS
from deployments.settings.metrics_settings import read_quantiles

# With a password, mostly.
USER_IN_URL = re.compile(r"://[^/@\s]+@")

RESTRICTED_APIS = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)

# The last is not tritonserver's.
CONTROL_MODES = ("none", "poll", "explicit", "ondemand")

_TRUE = frozenset({"true", "on", "1"})
_FALSE = frozenset({"false", "off", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_TRACE_LEVELS = {
    "false": "OFF",
    "off": "OFF",
    "true": "TIMESTAMPS",
    "on": "TIMESTAMPS",
    "min": "TIMESTAMPS",
    "max": "TIMESTAMPS",
    "timestamps": "TIMESTAMPS",
    "tensors": "TENSORS",
}
_TRACE_MODES = ("triton", "opentelemetry")
_TRACE_INTEGERS = {
    "": ("rate", "count"),
    "triton": ("log-frequency",),
    "opentelemetry": (
        "bsp_max_queue_size",
        "bsp_schedule_delay",
        "bsp_max_export_batch_size",
    ),
}


class ValueRefusedError(Exception):
    """A value has the wrong form; the message says what was given and what is expected."""


def boolean(text: str) -> bool:
    """Read true/on/1 or false/off/0, in any case."""
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueRefusedError(f"invalid value for bool option: {text}")


def _integer_in(allowed: range) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueRefusedError(f"Invalid option value. Got {text}")
        if int(text) not in allowed:
            raise ValueRefusedError(f"Provided option value is out of bound. Got {text}")
        return int(text)

    return parse


integer = _integer_in(_INT32)
long_integer = _integer_in(_INT64)


def port(text: str) -> int:
    """Read a port; 0 lets the system choose."""
    number = integer(text)
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the largest port
        raise ValueRefusedError(
            f"Provided option value is out of bound. Got {text}, expected a port from 0 to 65535"
        )
    return number


def grpc_thread_count(text: str) -> int:
    """Read ``--grpc-infer-thread-count``."""
    number = integer(text)
    if not 2 <= number <= 128:  # noqa: PLR2004 - Triton's range
        raise ValueRefusedError(
            "invalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128."
        )
    return number


def verbosity(text: str) -> int:
    """Read a level, or true and false for 1 and 0."""
    level = {"true": 1, "false": 0}.get(text.lower())
    return integer(text) if level is None else level


def real(text: str) -> float:
    """Read a finite decimal number."""
    try:
        number = float(text)
    except ValueError:
        raise ValueRefusedError(f"Invalid option value. Got {text}") from None
    if number - number != 0.0:
        raise ValueRefusedError(f"Provided option value is out of bound. Got {text}")
    return number


def fraction(text: str) -> float:
    """Read a number of CPUs or of seconds: zero or more."""
    number = real(text)
    if number < 0:
        raise ValueRefusedError(f"Provided option value is out of bound. Got {text}, expected >= 0")
    return number


def part(text: str) -> float:
    """Read a part of a whole: from zero to one."""
    number = real(text)
    if not 0 <= number <= 1:
        raise ValueRefusedError(
            f"Provided option value is out of bound. Got {text}, expected from 0 to 1"
        )
    return number


def seconds_or_auto(text: str) -> str:
    """Check a number of seconds, zero or more, or the word auto."""
    if text != "auto":
        fraction(text)
    return text


def config_name(text: str) -> str:
    """Read ``--model-config-name``: the name of a file, without spaces."""
    if not text:
        raise ValueRefusedError("Error: empty argument for --model-config-name")
    if "/" in text or any(character.isspace() for character in text):
        raise ValueRefusedError(
            f"Invalid option value. Got '{text}', expected a file name without spaces"
        )
    return text


def folder_of_nodes(text: str) -> str:
    """Read a folder that every node has, whatever directory its processes run in."""
    if text and not text.startswith("/"):
        raise ValueRefusedError(
            f"Error: invalid argument for --model-cache-directory: got '{text}', expected an"
            " absolute path"
        )
    return text


def module_names(text: str) -> str:
    """Read names of Python modules, separated by commas."""
    names = [each.strip() for each in text.split(",")] if text.strip() else []
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueRefusedError(
                f"Error: invalid argument for --fork-server-preload: got '{name}', expected names"
                " of Python modules separated by commas, such as 'transformers,PIL.Image'"
            )
    return ",".join(names)


def choice(refusal: str, *allowed: str, fold: bool = True) -> Callable[[str], str]:
    """Return a parser of one of some words; with ``fold`` in any case."""

    def parse(text: str) -> str:
        word = text.lower() if fold else text
        if word not in allowed:
            raise ValueRefusedError(f"{refusal}. Got {text}, expected one of {', '.join(allowed)}")
        return word

    return parse


def pair(separator: str) -> Callable[[str], tuple[int, int]]:
    """Return a parser of two integers."""

    def parse(text: str) -> tuple[int, int]:
        first, second = _split_pair(text, separator)
        return integer(first), long_integer(second)

    return parse


def gpu_fraction(text: str) -> tuple[int, float]:
    """Read ``<device>:<fraction>``."""
    device, share = _split_pair(text, ":")
    return integer(device), real(share)


def _split_pair(text: str, separator: str) -> tuple[str, str]:
    first, found, second = text.partition(separator)
    if not found:
        raise ValueRefusedError(
            "Cannot parse pair option due to incorrect number of inputs.--<pair option> argument "
            f"requires format <first>{separator}<second>. Found: {text}"
        )
    return first, second


def setting(
    option: str, subject: str, *, needs_name: bool
) -> Callable[[str], tuple[str, str, str]]:
    """Return a parser of ``<name>,<key>=<value>``; without ``needs_name`` also ``<key>=<value>``.

    Args:
        option: The option, for the error.
        subject: What the name names, for the error.
        needs_name: Whether the name may be left out.
    """
    form = f"<{subject}>,<setting>=<value>"

    def parse(text: str) -> tuple[str, str, str]:
        # As tritonserver has it, a comma anywhere, even in the value, ends the name.
        name, comma, rest = text.partition(",")
        if not comma:
            name, rest = "", text
        if (comma and not name) or (needs_name and not name):
            also = "" if needs_name else " or <setting>=<value>"
            kind = subject.removesuffix(" name")
            raise ValueRefusedError(
                f"No {kind} specified. --{option} option format is {form}{also}. Got {text}"
            )
        key, equals, value = rest.partition("=")
        if not (equals and key and value):
            raise ValueRefusedError(f"--{option} option format is '{form}'. Got {text}")
        return name, key, value

    return parse


def host_policy(text: str) -> tuple[str, str, str]:
    """Read ``<policy>,<setting>=<value>``.

    Triton: core/src/tritonserver.cc TritonServerOptions::SetHostPolicy @73aad7c
    """
    name, key, value = _host_policy_setting(text)
    if key not in HOST_POLICY_SETTINGS:
        raise ValueRefusedError(
            f"Unsupported host policy setting '{key}' is specified, supported settings are "
            "'numa-node', 'cpu-cores'"
        )
    return name, key, value


_host_policy_setting = setting("host-policy", "policy name", needs_name=True)


def metrics_setting(text: str) -> tuple[str, str]:
    """Read ``<setting>=<value>`` of ``--metrics-config``."""
    key, equals, value = text.partition("=")
    if not (equals and key and value) or "," in key:
        raise ValueRefusedError(f"--metrics-config option format is <setting>=<value>. Got {text}")
    if key == "summary_quantiles":
        try:
            read_quantiles(value)
        except ValueError as error:
            raise ValueRefusedError(f"--metrics-config {key}: {error}") from None
    return key, value


def trace_setting(text: str) -> tuple[str, str, str]:
    """Read ``[<mode>,]<setting>=<value>`` of ``--trace-config``."""
    mode, key, value = setting("trace-config", "trace mode", needs_name=False)(text)
    mode = mode.lower()
    if mode:
        trace_mode(mode)
    if (mode, key) == ("", "level"):
        value = trace_level(value)
    if (mode, key) == ("", "mode"):
        value = trace_mode(value)
    if key == "url" and USER_IN_URL.search(value):
        raise ValueRefusedError(
            "--trace-config opentelemetry,url: got a URL with user or password, which every process"
            " would be told; expected one without, and credentials in the environment, in"
            " OTEL_EXPORTER_OTLP_HEADERS"
        )
    if key in _TRACE_INTEGERS[mode]:
        try:
            integer(value)
        except ValueRefusedError as error:
            option = f"{mode},{key}" if mode else key
            raise ValueRefusedError(f'Bad option: "--trace-config {option}".\n{error}') from None
    return mode, key, value


def trace_level(text: str) -> str:
    """Read a trace level: OFF, TIMESTAMPS or TENSORS."""
    level = _TRACE_LEVELS.get(text.lower())
    if level is None:
        raise ValueRefusedError(f"invalid value for trace level option: {text}")
    return level


def trace_mode(text: str) -> str:
    """Read a trace mode: triton or opentelemetry."""
    if text.lower() not in _TRACE_MODES:
        raise ValueRefusedError(
            f'invalid value for trace mode option: {text}. Available options are "triton" and '
            '"opentelemetry"'
        )
    return text.lower()


def rate_limit_resource(text: str) -> tuple[str, int, int]:
    """Read ``<name>:<count>[:<device>]``; the device of all devices is -1."""
    name, *numbers = text.split(":")
    if not 1 <= len(numbers) <= 2:  # noqa: PLR2004 - count, and perhaps a device
        raise ValueRefusedError(
            "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or "
            f"'<resource_name>:<count>'. Got {text}"
        )
    return name, integer(numbers[0]), integer(numbers[1]) if len(numbers) > 1 else -1


def restricted(option: str, kind: str) -> Callable[[str], tuple[tuple[str, ...], str, str]]:
    """Return a parser of ``<api>[,<api>..]:<key>=<value>``."""

    def parse(text: str) -> tuple[tuple[str, ...], str, str]:
        names, colon, rest = text.partition(":")
        key, equals, value = rest.partition("=")
        if not (colon and equals and names and key and value):
            # The value is a secret, so what was given is not repeated.
            raise ValueRefusedError(
                f"--{option} option format is '<config name>:<setting>=<value>'"
            )
        for name in names.split(","):
            if name not in RESTRICTED_APIS:
                raise ValueRefusedError(f"unknown restricted {kind} '{name}'")
        return tuple(names.split(",")), key, value

    return parse
