# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs families of attacks, one after the other, against one server."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.attack.families.api import attack_api
from tests.attack.families.bombs import attack_with_bombs
from tests.attack.families.fuzz_grpc import fuzz_grpc
from tests.attack.families.fuzz_http import fuzz_http
from tests.attack.families.hidden import look_for_secrets
from tests.attack.families.log_injection import inject_into_logs
from tests.attack.families.paths import traverse_paths
from tests.attack.families.pseudo_headers import abuse_pseudo_headers
from tests.attack.families.slow import be_slow
from tests.attack.families.smuggling import smuggle
from tests.attack.families.ssrf import forge_requests
from tests.attack.families.tokens import attack_credentials
from tests.attack.scene import Options, Scene
from tests.attack.tally import Tally

FAMILIES: Final[Mapping[str, Callable[[Scene, Tally], None]]] = MappingProxyType(
    {
        "API top ten": attack_api,
        "request forgery": forge_requests,
        "header smuggling": smuggle,
        "HTTP/2 headers": abuse_pseudo_headers,
        "bombs": attack_with_bombs,
        "slow peers": be_slow,
        "paths": traverse_paths,
        "log injection": inject_into_logs,
        "fuzzed HTTP": fuzz_http,
        "fuzzed gRPC": fuzz_grpc,
        "secrets": look_for_secrets,
        "credentials": attack_credentials,
    }
)


def run(options: Options, families: Iterable[str]) -> list[Tally]:
    """Run families against a server of their own; return what each has found."""
    with tempfile.TemporaryDirectory(prefix="manta-attack-") as folder:
        scene = Scene(Path(folder), options)
        try:
            return [_run(scene, name) for name in families]
        finally:
            scene.server.terminate()


def _run(scene: Scene, name: str) -> Tally:
    print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
    tally = scene.run(name, FAMILIES[name])
    verdict = f"{len(tally.findings)} findings" if tally.findings else "held"
    print(f"{verdict} after {tally.seconds:.0f} s", flush=True, file=sys.stderr)
    return tally
