# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every framework behind the server, beside the framework's own bare loop and ONNX Runtime's model.

For each framework that is installed, one instance of one thread, HTTP, 8 clients, dynamic batching:

- model-bound: rows a second of a large model, to those of a bare loop over batches of the same
  mean size in a process without anything else.
- overhead-bound: requests a second of a tiny model, to those of the same model with ONNX Runtime;
  and to what the frameworks' own calls leave of these.
- memory: what the tiny model's instance has alone, beyond the identity backend's instance and the
  framework's import.

And weight sharing, and what a server without models has imported. Runs are interleaved; the figures
are medians. Usage: bench_backends.py [--rounds 5] [--only REGEX] [--json FILE]
"""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from bench_backends_report import (
    LARGEST,
    Memory,
    ModelBound,
    OverheadBound,
    Report,
    Run,
    Sharing,
)
from bench_cases import Case
from bench_frameworks import CUSTOM, FRAMEWORKS, ONNXRUNTIME, TORCHSCRIPT, Framework
from bench_measure import load, warm_up
from bench_servers import PROC, ROOT, NotReadyError, Target, manta
from process_costs import private_mb

from backends.custom import shim_library

CLIENTS: Final = 8
BARE_S: Final = 3.0
CALL_S: Final = 1.0
# Half of the clients are in a batch while the others are answered.
BATCHING: Final = {
    "large": f"""
max_batch_size: {LARGEST}
dynamic_batching {{ preferred_batch_size: [ {CLIENTS // 2} ] max_queue_delay_microseconds: 10000 }}
""",
    "small": "max_batch_size: 64 dynamic_batching { }\n",
}
GROUP: Final = "instance_group {{ kind: KIND_CPU count: {} }}\n"
IDENTITY: Final = """
backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 64 ] }
"""
SHARING: Final = 'parameters { key: "ENABLE_WEIGHT_SHARING" value { string_value: "true" } }\n'
KINDS: Final = ("model-bound", "overhead-bound", "memory")
WEIGHTS_CASE, EMPTY_CASE = "weight sharing", "no models"
LIBRARIES: Final = re.compile(
    r"/[^/]*(libtorch|libtensorflow|libopenvino|onnxruntime|libtreelite|libtriton)[^/]*\.so"
)

Row = TypeVar("Row", ModelBound, OverheadBound, Memory)


class NoResultError(Exception):
    """A model answered nothing, or a bare process ended."""


class Bare:
    """A process that has nothing but a framework, and does what it is told."""

    def __init__(self, framework: Framework, work: Path) -> None:
        command = [sys.executable, str(ROOT / "scripts/bench_frameworks.py"), framework.name]
        self._log = (work / f"{framework.name}.log").open("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def ask(self, *words: object) -> float:
        """Return the answer to a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            self._log.seek(0)
            raise NoResultError(f"{self._process.args} {words}\n{self._log.read()}")
        return float(answer)

    def private_mb(self) -> float:
        """Return the memory that it shares with no other process."""
        return private_mb(self._process.pid)

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._log.close()


def _bare(framework: Framework, work: Path) -> contextlib.AbstractContextManager[Bare]:
    return contextlib.closing(Bare(framework, work))


def _write_model(framework: Framework, size: str, root: Path) -> Path:
    """Write a model without its config, unless it is there; return the file's path."""
    path = root / f"{size}_{framework.name}" / "1" / framework.file
    if path.exists():
        return path
    path.parent.mkdir(parents=True)
    if framework.open is not None:
        maker = str(ROOT / "scripts/bench_framework_models.py")
        done = subprocess.run(
            [sys.executable, maker, framework.name, size, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoResultError(f"{framework.name}: the model cannot be made\n{done.stderr}")
    return path


def _serve(models: Path, name: str, source: Path, config: str) -> None:
    """Add a model to a repository: another's versions under a name and a config of its own."""
    (models / name).mkdir(parents=True)
    (models / name / "1").symlink_to(source.parent)
    (models / name / "config.pbtxt").write_text(f'name: "{name}"\n{config}')


def compile_backend(place: Path) -> None:
    """Compile the backend in C."""
    library = place / "copying/libtriton_copying.so"
    library.parent.mkdir(parents=True)
    shim = shim_library.path()
    subprocess.run(
        [
            *("cc", "-O2", "-shared", "-fPIC", f"-I{shim_library.SOURCES}"),
            *(str(ROOT / "scripts/bench_backend.c"), "-o", str(library)),
            *(f"-L{shim.parent}", f"-l:{shim.name}"),
        ],
        check=True,
    )


def _instances(target: Target, model: str) -> list[int]:
    """Return the processes of a model's instances."""
    title = f"ray::{model}/1#".encode()
    return [
        process
        for process in target.processes()
        if (PROC / str(process) / "cmdline").read_bytes().startswith(title)
    ]


def imported(target: Target) -> dict[str, list[str]]:
    """Return, by the title of a process that is no instance, the frameworks' libraries in it."""
    found = {}
    for process in target.processes():
        with contextlib.suppress(OSError):
            line = (PROC / str(process) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if not re.match(r"ray::\S+/\d+#", line):
                maps = (PROC / str(process) / "maps").read_text()
                libraries = sorted({each[1] for each in LIBRARIES.finditer(maps)})
                found[f"{line[:60].strip()} ({process})"] = libraries
    return found


def _run(model: str, target: Target, bare: Bare | None, for_s: float, work: Path) -> Run:
    """Load a model, then call it in a bare process with batches of the same mean size."""
    before = target.counts(model)
    found = load(Case(model, model, "http", CLIENTS), target, work)
    after = target.counts(model)
    if found is None:
        raise NoResultError(f"{model}: no result")
    batch = (after.rows - before.rows) / (after.executions - before.executions)
    call_us = bare.ask("loop", round(batch), for_s) if bare is not None else 0.0
    return Run(found.throughput, batch, call_us)


class Bench:
    """What is measured of all frameworks."""

    def __init__(self, work: Path, rounds: int, only: str) -> None:
        self._work, self._rounds, self._only = work, rounds, only
        self._files = work / "files"
        self.report = Report()

    def wants(self, case: str) -> bool:
        """Return whether a case was asked for."""
        return re.search(self._only, case) is not None

    def compare(self, framework: Framework) -> None:
        """Measure all of a framework that was asked for."""
        wanted = {kind for kind in KINDS if self.wants(f"{framework.name} {kind}")}
        if framework is CUSTOM:
            wanted.discard(KINDS[0])
        if not wanted:
            return
        with (
            tempfile.TemporaryDirectory(dir=self._work) as folder,
            contextlib.ExitStack() as stack,
        ):
            models = Path(folder, "models")
            _serve(models, "identity", self._files / "none/1/none", IDENTITY + GROUP.format(1))
            paths = self._write(framework, models, wanted)
            target = stack.enter_context(
                manta([models], self._work, f"--backend-directory={self._work / 'backends'}")
            )
            print(f"{framework.name}: served", file=sys.stderr, flush=True)
            if framework is not CUSTOM and KINDS[0] in wanted:
                self._compare_bound(framework, paths["large"], target)
            if wanted - {KINDS[0]}:
                self._compare_small(framework, paths, target, wanted)

    def _write(self, framework: Framework, models: Path, wanted: set[str]) -> dict[str, Path]:
        (self._files / "none/1").mkdir(parents=True, exist_ok=True)
        served = {"large": framework} if KINDS[0] in wanted else {}
        if wanted - {KINDS[0]}:
            served["small"] = framework
        if KINDS[1] in wanted:
            served["reference"] = ONNXRUNTIME
        paths = {}
        for name, own in served.items():
            size = "large" if name == "large" else "small"
            paths[name] = _write_model(own, size, self._files)
            _serve(models, name, paths[name], own.config + BATCHING[size] + GROUP.format(1))
        return paths

    def _compare_bound(self, framework: Framework, path: Path, target: Target) -> None:
        with _bare(framework, self._work) as bare:
            bare.ask("open", path)
            warm_up(Case("large", "large", "http", CLIENTS), target, self._work)
            runs, largest_us = [], []
            for _ in range(self._rounds):
                runs.append(_run("large", target, bare, BARE_S, self._work))
                largest_us.append(bare.ask("loop", LARGEST, CALL_S))
        self._add(self.report.model_bound, ModelBound(framework.name, runs, largest_us))

    def _compare_small(
        self, framework: Framework, paths: dict[str, Path], target: Target, wanted: set[str]
    ) -> None:
        with contextlib.ExitStack() as stack:
            calls: dict[str, Bare | None] = {}
            for name, own in (("reference", ONNXRUNTIME), ("small", framework)):
                if name in paths:
                    calls[name] = None
                    if own.open is not None:
                        bare = calls[name] = stack.enter_context(_bare(own, self._work))
                        bare.ask("open", paths[name])
            for name in (*calls, "identity"):
                warm_up(Case(name, name, "http", CLIENTS), target, self._work)
            runs: dict[str, list[Run]] = {name: [] for name in calls}
            for _ in range(self._rounds if KINDS[1] in wanted else 0):
                for name, own in calls.items():
                    runs[name].append(_run(name, target, own, CALL_S, self._work))
        if KINDS[1] in wanted:
            found = OverheadBound(framework.name, runs["reference"], runs["small"])
            self._add(self.report.overhead_bound, found)
        if KINDS[2] in wanted:
            found = self._compare_memory(framework, paths["small"], target)
            self._add(self.report.memory, found)

    @staticmethod
    def _add(rows: list[Row], row: Row) -> None:
        rows.append(row)
        print(row.line(), file=sys.stderr, flush=True)

    def _compare_memory(self, framework: Framework, path: Path, target: Target) -> Memory:
        (instance,), (identity,) = (_instances(target, name) for name in ("small", "identity"))
        imports = in_use = 0.0
        if framework.open is not None:
            with _bare(framework, self._work) as bare:
                # It has numpy, as every instance has.
                bare.ask("ready")
                empty = bare.private_mb()
                bare.ask("import")
                imports = bare.private_mb() - empty
                bare.ask("open", path)
                bare.ask("loop", CLIENTS, CALL_S)
                in_use = bare.private_mb() - empty
        return Memory(framework.name, private_mb(instance), private_mb(identity), imports, in_use)

    def share_weights(self) -> Sharing:
        """Measure a large model with one instance, and with two that share its weights."""
        path = _write_model(TORCHSCRIPT, "huge", self._files)
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            models = Path(folder, "models")
            plain = TORCHSCRIPT.config + BATCHING["small"]
            _serve(models, "alone", path, plain + GROUP.format(1))
            _serve(models, "sharing", path, plain + SHARING + GROUP.format(2))
            with manta([models], self._work) as target:
                # Full batches, so that both instances touch all weights.
                for name in ("alone", "sharing"):
                    case = Case(name, name, "http", CLIENTS, ("-b", "64"))
                    warm_up(case, target, self._work)
                (alone,) = _instances(target, "alone")
                second = max(map(private_mb, _instances(target, "sharing")))
                return Sharing(private_mb(alone), second)

    def serve_nothing(self) -> dict[str, list[str]]:
        """Return what the processes of a server without models have of the frameworks."""
        with (
            tempfile.TemporaryDirectory(dir=self._work) as folder,
            manta([Path(folder)], self._work) as target,
        ):
            return imported(target)


def _installed() -> Iterator[Framework]:
    for framework in FRAMEWORKS.values():
        if not framework.is_installed():
            print(f"{framework.name}: not installed, left out", file=sys.stderr, flush=True)
        else:
            yield framework


def main() -> None:
    """Run the comparison and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="regular expression of the cases' names")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        bench = Bench(work, args.rounds, args.only)
        compile_backend(work / "backends")
        for framework in _installed():
            try:
                bench.compare(framework)
            except (NotReadyError, NoResultError) as error:
                print(error, file=sys.stderr, flush=True)
        if bench.wants(WEIGHTS_CASE) and TORCHSCRIPT.is_installed():
            bench.report.sharing = bench.share_weights()
        if bench.wants(EMPTY_CASE):
            bench.report.imported = bench.serve_nothing()
    print(bench.report.text(args.rounds))
    if args.json:
        bench.report.write_json(args.json)


if __name__ == "__main__":
    main()
