# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Kills the model controller at random moments of what it does, and looks what becomes of it.

    python -m tests.faults.controller_kills [--kills N] [--seed N] [--only explicit poll]

The moments are drawn: while a model loads, reloads, unloads, or is given other instances; after a
change of a repository that is polled; while a server starts; while a node drains. Meanwhile clients
ask a model that nobody changes. Kept is: none of them loses an answer; afterwards each model has
what was asked for last, executes it, and has as many processes as instances. Ends with 1 otherwise.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from tests.faults.models import BUSY, Shape, config_of_round, write_model
from tests.faults.scene import CONTROLLER
from tests.support.busy_clients import BusyClients, ask, failures
from tests.support.ray_nodes import RayNode, RayNodes
from tests.support.server import RunningServer

CLIENTS: Final = 2
MODELS: Final = ("a", "b", "c")
MOST_INSTANCES: Final = 3
# Of what a controller does within a second or two after it was asked.
LATEST_S: Final = 1.5
POLL_S: Final = 1
TIMEOUT_S: Final = 120.0
DRAIN_S: Final = 100.0
# Of 20 kills; those that cost a start of a server or a node are fewer.
SHARES: Final = {"explicit": 11, "poll": 5, "start": 2, "drain": 2}
ROOM: Final = {"slot": 4.0}
SOURCE: Final = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answer = np.array([{answer}], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", answer)]) for _ in requests]
"""
CONFIG: Final = """
backend: "python"
input {{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: {count} }}
"""


class BrokenError(Exception):
    """What was asked for is not there."""


def until(holds: Callable[[], str], within_s: float = TIMEOUT_S) -> None:
    """Wait until nothing is wrong.

    Raises:
        BrokenError: Something is for too long; the message says what.
    """
    deadline_s = time.monotonic() + within_s
    while wrong := holds():
        if time.monotonic() > deadline_s:
            raise BrokenError(wrong)
        time.sleep(0.05)


class Repository:
    """A model repository whose models answer with a number of their own, and what is wanted of it.

    Attributes:
        wanted: Of each model that is to be served, the answer and the number of instances.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wanted: dict[str, tuple[int, int]] = {}
        self._answers = 0

    def write(self, name: str, count: int) -> None:
        """Write a model anew, in one step, as whoever publishes models does."""
        self._answers += 1
        made = self.folder.parent / f"{name}-{self._answers}"
        (made / "1").mkdir(parents=True)
        (made / "1/model.py").write_text(SOURCE.format(answer=self._answers))
        (made / "config.pbtxt").write_text(CONFIG.format(count=count))
        link = self.folder.parent / "link"
        link.symlink_to(made)
        link.replace(self.folder / name)
        self.wanted[name] = self._answers, count

    def remove(self, name: str) -> None:
        """Take a model away."""
        (self.folder / name).unlink()
        del self.wanted[name]


def controllers(root: psutil.Process) -> list[psutil.Process]:
    """Return the model controllers among a process's descendants."""
    found = []
    for each in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if " ".join(each.cmdline()).startswith(CONTROLLER):
                found.append(each)
    return found


def kill_controller(root: psutil.Process) -> None:
    """Kill the model controller, as soon as there is one."""
    until(lambda: "" if controllers(root) else "there is no model controller")
    for each in controllers(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)


def what_is_wrong(server: RunningServer, repository: Repository) -> str:
    """Return what is not as it was asked for; empty when all is."""
    status, text = ask(server.http, "POST", "/v2/repository/index", {}, TIMEOUT_S)
    if status != 200:
        return f"the index answers {status} {text[:200]}"
    states = {row["name"]: row.get("state", "") for row in json.loads(text)}
    for name in MODELS:
        answer, count = repository.wanted.get(name, (0, 0))
        processes = len(server.processes(f"ray::{name}/"))
        if processes != count:
            return f"model {name} has {processes} processes, wanted are {count}"
        state = states.get(name, "")
        if not count:
            if state == "READY":
                return f"model {name} is READY, nobody wants it"
            continue
        if state != "READY":
            return f"model {name} is {state or 'not listed'}, wanted with {count} instances"
        body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": [1], "data": [0]}]}
        status, text = ask(server.http, "POST", f"/v2/models/{name}/infer", body, TIMEOUT_S)
        if status != 200 or json.loads(text)["outputs"][0]["data"] != [answer]:
            return f"model {name} is to answer {answer}, and answers {status} {text[:200]}"
    return ""


@contextlib.contextmanager
def served(
    mode: str, *flags: str, prepare: Callable[[RunningServer], None] = lambda _: None
) -> Iterator[tuple[RunningServer, Repository]]:
    """Serve the busy model under load, and a repository; afterwards no answer may be lost."""
    with tempfile.TemporaryDirectory(prefix="manta-kills-") as folder:
        repository = Repository(Path(folder, "models"))
        repository.folder.mkdir()
        write_model(repository.folder, BUSY, Shape(instances=1))
        server = RunningServer(
            repository.folder, f"--model-control-mode={mode}", "--exit-timeout-secs=10", *flags
        )
        prepare(server)
        clients = BusyClients(
            server.http, server.grpc, BUSY, concurrency=CLIENTS, patience_s=TIMEOUT_S
        )
        try:
            clients.wait_warm(5, TIMEOUT_S)
            yield server, repository
            outcomes = clients.stop()
            print(f"{mode}: {len(outcomes)} requests", flush=True)
            if lost := failures(outcomes):
                raise BrokenError(f"requests were lost: {lost}")
        finally:
            clients.stop()
            server.terminate()


def ask_controller(server: RunningServer, name: str, verb: str) -> None:
    """Ask for a load or an unload until it is done, as a client does that has no answer."""
    path = f"/v2/repository/models/{name}/{verb}"
    seen = [""]

    def refused() -> str:
        status, text = ask(server.http, "POST", path, {}, TIMEOUT_S)
        seen[0] = "" if status == 200 else f"{verb} of {name}: {status} {text[:300]}"
        return seen[0]

    until(refused)


def explicit(kills: int, draw: random.Random) -> None:
    """Kill it while models load, reload and unload."""
    with served("explicit", f"--load-model={BUSY}") as (server, repository):
        root = psutil.Process(server.pid)
        for number in range(kills):
            name = draw.choice(MODELS)
            verb = draw.choice(("load", "load", "unload")) if name in repository.wanted else "load"
            if verb == "load":
                repository.write(name, draw.randint(1, MOST_INSTANCES))
            else:
                repository.wanted.pop(name)
            asking = threading.Thread(target=_noted, args=(ask_controller, server, name, verb))
            after_s = draw.uniform(0, LATEST_S)
            asking.start()
            time.sleep(after_s)
            kill_controller(root)
            asking.join()
            until(lambda: what_is_wrong(server, repository))
            print(f"explicit {number}: {verb} {name}, killed after {after_s:.2f} s", flush=True)


def _noted(work: Callable[..., None], *given: Any) -> None:
    # What is wrong then is found by who looks.
    with contextlib.suppress(BrokenError):
        work(*given)


def poll(kills: int, draw: random.Random) -> None:
    """Kill it after a polled repository has changed."""
    with served("poll", f"--repository-poll-secs={POLL_S}") as (server, repository):
        root = psutil.Process(server.pid)
        for number in range(kills):
            name = draw.choice(MODELS)
            if name in repository.wanted and draw.random() < 0.3:
                repository.remove(name)
            else:
                repository.write(name, draw.randint(1, MOST_INSTANCES))
            after_s = draw.uniform(0, POLL_S + LATEST_S)
            time.sleep(after_s)
            kill_controller(root)
            until(lambda: what_is_wrong(server, repository))
            print(f"poll {number}: {name}, killed after {after_s:.2f} s", flush=True)


def start(kills: int, draw: random.Random) -> None:
    """Kill it while a server starts."""
    for number in range(kills):
        after_s = draw.uniform(0, LATEST_S)
        with tempfile.TemporaryDirectory(prefix="manta-kills-") as folder:
            repository = Repository(Path(folder, "models"))
            repository.folder.mkdir()
            for name in MODELS:
                repository.write(name, draw.randint(1, MOST_INSTANCES))
            _start(repository, after_s)
        print(f"start {number}: killed after {after_s:.2f} s", flush=True)


def _start(repository: Repository, after_s: float) -> None:
    def kill() -> None:
        me = psutil.Process()
        until(lambda: "" if controllers(me) else "there is no model controller")
        time.sleep(after_s)
        kill_controller(me)

    killing = threading.Thread(target=_noted, args=(kill,))
    killing.start()
    server = RunningServer(repository.folder, "--exit-timeout-secs=10")
    killing.join()
    try:
        until(lambda: what_is_wrong(server, repository))
        tree = server.tree()
    finally:
        code = server.terminate()
    _, left = psutil.wait_procs(tree, timeout=20)
    if code or left:
        raise BrokenError(f"the server ended with {code} and left {left}")


def drain(kills: int, draw: random.Random) -> None:
    """Kill it while a node drains, from which instances move to another."""
    nodes = RayNodes()
    try:
        before = nodes.add("n0", resources=ROOM)
        joined = f"--ray-address={nodes.address}"
        with served("explicit", joined, prepare=_load_placed):
            for number in range(kills):
                after = nodes.add(f"n{number + 1}", resources=ROOM)
                nodes.drain(before, DRAIN_S)
                after_s = draw.uniform(0, 2 * LATEST_S)
                time.sleep(after_s)
                kill_controller(psutil.Process())
                until(lambda old=before, new=after: _not_moved(old, new))  # type: ignore[misc]
                before = after
                print(f"drain {number}: killed after {after_s:.2f} s", flush=True)
    finally:
        nodes.shutdown()


def _load_placed(server: RunningServer) -> None:
    """Have two instances of a model that only nodes with room may have."""
    config = config_of_round(0, Shape(instances=2))
    parameters: Any = config["parameters"]
    parameters["ray_resources"] = {"string_value": '{"slot": 1}'}
    body = {"parameters": {"config": json.dumps(config)}}
    status, text = ask(server.http, "POST", f"/v2/repository/models/{BUSY}/load", body, TIMEOUT_S)
    if status != 200:
        raise BrokenError(f"load of {BUSY}: {status} {text[:300]}")


def _not_moved(before: RayNode, after: RayNode) -> str:
    there, left = len(after.workers(f"{BUSY}/1#")), len(before.workers(f"{BUSY}/1#"))
    if (there, left) != (2, 0):
        return f"{there} instances are on the new node, {left} on the one that drains"
    return "" if before.is_gone else "the node that drains does not end"


KINDS: Final = {"explicit": explicit, "poll": poll, "start": start, "drain": drain}


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.controller_kills")
    parser.add_argument("--kills", type=int, default=20, help="all kinds together (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    broken = 0
    for kind in given.only:
        kills = max(1, given.kills * SHARES[kind] // sum(SHARES.values()))
        try:
            KINDS[kind](kills, random.Random(f"{kind} {given.seed}"))
        except BrokenError as error:
            broken += 1
            print(f"BROKEN {kind}: {error}", flush=True)
    print("broken" if broken else f"kept, seed {given.seed}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
