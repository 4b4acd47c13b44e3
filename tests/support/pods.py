# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pods without Kubernetes: an address, a process tree and a /tmp of their own each.

A pod is a network, a PID and a mount namespace on this machine. Its command is PID 1, as in a
container; when it ends the kernel ends all that the pod still runs. Pods reach each other and the
tests through a bridge. That takes root and the tools `ip`, `unshare` and `nsenter`.
"""

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import psutil

from tests.support.server import ROOT, titled

_TOOLS: Final = ("ip", "unshare", "nsenter", "mount", "wget", "bash")
_END_S: Final = 30.0
# Where a pod finds the folder that all pods share, as a volume of models.
MODELS: Final = "/mnt"
# Where a pod finds a volume of its own, if it has one.
VOLUME: Final = "/srv"


def missing_for_pods() -> str:
    """Return what this machine lacks; empty when it can have pods."""
    if os.geteuid() != 0:
        return "root"
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            return tool
    probe = ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "set", "lo", "up"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        return "namespaces"
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)


class Pod:
    """A pod whose command runs.

    Attributes:
        address: IPv4 address.
        process: What started the command on this machine; ends with the pod's PID 1.
    """

    def __init__(
        self,
        network: "PodNetwork",
        name: str,
        command: str,
        environment: Mapping[str, str],
        folder: Path,
        volume: Path | None,
    ) -> None:
        self.address, self._namespace = network.join(name)
        self._folder = folder / name
        (self._folder / "tmp").mkdir(parents=True, mode=0o777)
        self.log = self._folder / "log"
        # /tmp is the last: it hides where the others are. A checkout below it stays to be seen.
        places = {
            **({} if volume is None else {volume: VOLUME}),
            network.models: MODELS,
            network.hosts: "/etc/hosts",
            **self._checkout_below_tmp(),
            self._folder / "tmp": "/tmp",
        }
        mounts = [f"mount --rbind {shlex.quote(str(at))} {to}" for at, to in places.items()]
        # KubeRay's entry point is bash, which becomes the last command that it is given.
        script = " && ".join([*mounts, f"exec /bin/bash -c -- {shlex.quote(command)}"])
        self._command = [
            *("ip", "netns", "exec", self._namespace),
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("/bin/bash", "-c", script),
        ]
        self._environment = {**_own_environment(), **environment, "POD_IP": self.address}
        self._start()

    def _checkout_below_tmp(self) -> dict[Path, str]:
        if not ROOT.is_relative_to("/tmp"):
            return {}
        place = self._folder / ROOT.relative_to("/")
        place.mkdir(parents=True)
        return {ROOT: shlex.quote(str(place))}

    def _start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=self._environment,
            )

    def restart_ended(self) -> None:
        """Start its command again if that has ended, as the kubelet does."""
        if self.process.poll() is not None:
            self._start()

    @property
    def first_process(self) -> psutil.Process:
        """The pod's PID 1, as this machine sees it."""
        return psutil.Process(self.process.pid).children()[0]

    def processes(self, title: str) -> set[int]:
        """Return the machine's ids of the pod's processes whose command begins with ``title``."""
        tree = psutil.Process(self.process.pid).children(recursive=True)
        return {each.pid for each in titled(tree, title)}

    def execute(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the shell inside, as a kubelet does for a probe."""
        inside = ["nsenter", "--net", "--pid", "--mount", "--target", str(self.first_process.pid)]
        return subprocess.run(
            [*inside, "/bin/bash", "-c", command], capture_output=True, text=True, check=False
        )

    def terminate(self) -> None:
        """Send SIGTERM to PID 1, as the kubelet does with a pod that is deleted."""
        self.first_process.send_signal(signal.SIGTERM)

    def wait_ended(self, grace_s: float) -> bool:
        """Wait until its command has ended, and end it after a time, as the kubelet does.

        Args:
            grace_s: ``terminationGracePeriodSeconds``.

        Returns:
            Whether it has ended by itself.
        """
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.end()
            return False
        return True

    def end(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            for each in psutil.Process(self.process.pid).children():
                each.kill()
            self.process.wait(_END_S)


def _own_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": "/tmp",
    }


class PodNetwork:
    """A bridge with an address of the tests, and the pods on it.

    Args:
        folder: Where pods keep what they write.
        models: The folder that every pod sees at `MODELS`.

    Attributes:
        hosts: The file in place of the cluster's name service, the same in every pod.
    """

    def __init__(self, folder: Path, models: Path) -> None:
        self.models = models
        self.hosts = folder / "hosts"
        self._names: dict[str, str] = {}
        self._folder = folder
        self._tag = f"{os.getpid() % 100_000}"
        self._bridge = f"mkb{self._tag}"
        # By namespace: its link, which lives on with the last process there unless it is deleted.
        self._links: dict[str, str] = {}
        self.pods: list[Pod] = []
        # Of 10/8, so that two runs on one machine hardly meet.
        generator = random.SystemRandom()
        self._net = f"10.{generator.randint(128, 254)}.{generator.randint(0, 254)}"

    def start(
        self,
        name: str,
        command: str,
        environment: Mapping[str, str],
        volume: Path | None = None,
    ) -> Pod:
        """Start a pod; it sees ``volume`` at `VOLUME`."""
        pod = Pod(self, name, command, environment, self._folder, volume)
        self.pods.append(pod)
        return pod

    def publish(self, name: str, address: str) -> None:
        """Have a name mean an address from now on, as that of a headless Service does."""
        self._names[name] = address
        # Written in place: pods have mounted the file, not its name.
        lines = (f"{address} {name}\n" for name, address in self._names.items())
        self.hosts.write_text("".join(lines))

    def join(self, name: str) -> tuple[str, str]:
        """Make a network namespace; return its address and name."""
        namespace = f"mkn{self._tag}-{name}"
        number = len(self._links) + 1
        address = f"{self._net}.{number}"
        inside, outside = f"mki{self._tag}-{number}", f"mko{self._tag}-{number}"
        _ip("netns", "add", namespace)
        _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", namespace)
        self._links[namespace] = outside
        _ip("link", "set", outside, "master", self._bridge, "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", inside)
        _ip("-n", namespace, "link", "set", inside, "up")
        # Ray finds out its own address by the route to the outside.
        _ip("-n", namespace, "route", "add", "default", "via", f"{self._net}.254")
        return address, namespace

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.publish("localhost", "127.0.0.1")
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for pod in reversed(self.pods):
            pod.end()
        for namespace, link in self._links.items():
            _ip("link", "del", link)
            _ip("netns", "del", namespace)
        _ip("link", "del", self._bridge)

    def logs(self) -> dict[str, list[str]]:
        """Return what the pods' commands have printed last, and their processes, by pod."""
        return {pod.log.parent.name: _last_lines(pod.log.parent) for pod in self.pods}


def _last_lines(folder: Path) -> list[str]:
    logs = [folder / "log", *folder.glob("tmp/ray/session_2*/logs/worker-*.err")]
    return [line for log in logs for line in log.read_text(errors="replace").splitlines()[-40:]]
