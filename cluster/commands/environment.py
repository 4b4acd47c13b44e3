# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta env``: what Ray's own commands need beside a server, and a report for issues.

Lines for a shell, in which the report is comments: ``eval "$(manta env)"``.
"""

import argparse
import os
import platform
import resource
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from backends.compiled_form import is_compiled
from cluster import __version__
from cluster.commands.client.command_line import command, print_json

_DESCRIPTION: Final = """Print the variables with which Ray's own commands (ray status, ray list
actors) find the Ray of a server on this machine, and a report of this machine for issues. For a
shell: eval "$(manta env)". The report has no values of variables and no credentials."""
_PACKAGES: Final = (
    "ray",
    "numpy",
    "grpcio",
    "protobuf",
    "uvloop",
    "tritonclient",
    "manta-tools",
    "onnxruntime",
    "onnxruntime-gpu",
    "torch",
    "openvino",
    "openvino-genai",
    "tensorflow-cpu",
    "treelite",
    "nvidia-ml-py",
)
_PREFIXES: Final = ("MANTA_", "RAY_", "CUDA_", "NVIDIA_", "AWS_", "OTEL_")
_NVIDIA: Final = Path("/proc/driver/nvidia/version")
_MEMORY: Final = Path("/proc/meminfo")
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - where shared memory lies
_GIB: Final = 1 << 30


@command("env", _DESCRIPTION, asks_server=False)
def main(given: argparse.Namespace) -> None:
    """Run ``manta env``."""
    variables, report = ray_variables(os.environ), collect(os.environ)
    if given.json:
        print_json({"variables": variables, "report": report})
        return
    width = max(map(len, report))
    for name, value in report.items():
        print(f"# {name:<{width}}  {value}")
    print('# For Ray\'s commands: eval "$(manta env)"')
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def ray_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what Ray's commands have to find in their environment.

    An embedded Ray asks for a token, which they show only when told to; Ray keeps it in a file of
    the user's, unless the environment names another.
    """
    found = {"RAY_AUTH_MODE": "token"}
    folder = Path(environ.get("RAY_TMPDIR") or "/tmp") / "ray"  # noqa: S108 - Ray's
    try:
        address = (folder / "ray_current_cluster").read_text().strip()
    except OSError:
        address = ""
    return {**found, **({"RAY_ADDRESS": address} if address else {})}


def collect(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the report: what is what, without credentials."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    set_here = sorted(name for name in environ if name.startswith(_PREFIXES))
    packages = [f"{name} {found}" for name in _PACKAGES if (found := _version(name))]
    shared = f", {_gib(shutil.disk_usage(_SHARED).total)} shared" if _SHARED.is_dir() else ""
    return {
        "manta": f"{__version__} ({'compiled' if is_compiled() else 'plain'})",
        "python": f"{platform.python_version()}, {sys.executable}",
        "system": f"{_distribution()}, {platform.release()}, {platform.machine()}",
        "cpus": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "memory": f"{_gib(_memory_bytes())}{shared}",
        "gpu driver": _first_line(_NVIDIA) or "none",
        "open files": f"{soft} of {hard}",
        "container": "yes" if _is_container(environ) else "no",
        "packages": ", ".join(packages),
        "variables": ", ".join(set_here) or "none",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _memory_bytes() -> int:
    fields = _first_line(_MEMORY).split()
    return int(fields[1]) << 10 if len(fields) > 1 else 0


def _is_container(environ: Mapping[str, str]) -> bool:
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return "KUBERNETES_SERVICE_HOST" in environ or any(each.exists() for each in marks)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].strip()
    except OSError:
        return ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.1f} GiB"
