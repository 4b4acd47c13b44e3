# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the targets with atheris, each in a process of its own: python -m tests.fuzz [SECONDS].

A finding ends the run; the input that made it is left in ``.cache/fuzz``.
"""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Final

CACHE: Final = Path(".cache/fuzz")
RSS_LIMIT_MIB: Final = 2048
_ONE: Final = "--target"


def fuzz_all(seconds: int) -> int:
    """Fuzz one target after the other; return the first exit status that is not 0."""
    from tests.fuzz.targets import TARGETS

    for name in TARGETS:
        print(f"fuzzing {name} for {seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz", _ONE, name, str(seconds)]
        done = subprocess.run(command, check=False)
        if done.returncode:
            return done.returncode
    return 0


def fuzz_one(name: str, seconds: int) -> None:
    """Fuzz a target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(
        include=["backends", "deployments"], enable_loader_override=False
    ):
        from tests.fuzz.targets import HANG_S, TARGETS

    logging.getLogger("deployments").setLevel(logging.CRITICAL)
    target = TARGETS[name]
    corpus = CACHE / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={HANG_S}",
        f"-rss_limit_mb={RSS_LIMIT_MIB}",
        f"-artifact_prefix={CACHE}/{name}-",
        "-max_len=30000",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [_ONE]:
        fuzz_one(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(fuzz_all(int(sys.argv[1]) if sys.argv[1:] else 60))
