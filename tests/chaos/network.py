# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The second node's network: a namespace with one link between the nodes and one for clients.

The link between the nodes can be cut or made slow while clients of either node notice nothing of it
themselves. It is cut in silence: what is sent is dropped, and nobody is told.
"""

import os
import shutil
import subprocess
from typing import Final

_TOOLS: Final = ("ip", "tc", "nsenter")
# The token bucket takes no packet that is larger than its burst: this one takes none at all.
_CUT: Final = ("rate", "8bit", "burst", "1", "limit", "1")
_SLOW: Final = ("rate", "2mbit", "burst", "4k", "latency", "300ms")


def why_not() -> str:
    """Return why there can be no namespace; empty: there can be one."""
    if os.geteuid():
        return "needs root for a network namespace"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs the tools {', '.join(missing)}"
    probe = f"manta-probe-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    if tried.returncode:
        return "may not make a network namespace"
    _run("ip", "netns", "delete", probe)
    return ""


class FarNetwork:
    """The namespace.

    Attributes:
        head_ip: The head's address for the other node; far_ip: the other node's for the head.
        client_ip: The other node's address for clients.
    """

    def __init__(self) -> None:
        number = os.getpid() % 60_000
        second, third = 64 + number // 250 % 190, number % 250
        self.head_ip = f"10.{second}.{third}.1"
        self.far_ip = f"10.{second}.{third}.2"
        self.client_ip = f"10.{second}.{third}.6"
        self._name = f"manta-chaos-{number}"
        self._links = (f"mcn{number}", f"mcc{number}")
        addresses = ((self.head_ip, self.far_ip), (f"10.{second}.{third}.5", self.client_ip))
        _run("ip", "netns", "add", self._name)
        try:
            self._far("link", "set", "lo", "up")
            for link, (near, far) in zip(self._links, addresses, strict=True):
                peer = f"{link}p"
                _run("ip", "link", "add", link, "type", "veth", "peer", peer, "netns", self._name)
                _run("ip", "address", "add", f"{near}/30", "dev", link)
                _run("ip", "link", "set", link, "up")
                self._far("address", "add", f"{far}/30", "dev", peer)
                self._far("link", "set", peer, "up")
        except BaseException:
            self.close()
            raise

    @property
    def prefix(self) -> tuple[str, ...]:
        """What runs a command in the namespace."""
        return ("nsenter", f"--net=/var/run/netns/{self._name}")

    def cut(self) -> None:
        """Drop everything between the nodes, in both directions."""
        self._shape(_CUT)

    def slow(self) -> None:
        """Let little through between the nodes, and drop what would wait too long."""
        self._shape(_SLOW)

    def heal(self) -> None:
        """Let everything through."""
        link = self._links[0]
        for prefix, device in (((), link), (self.prefix, f"{link}p")):
            _run(*prefix, "tc", "qdisc", "delete", "dev", device, "root")

    def close(self) -> None:
        """Take it all away."""
        for link in self._links:
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
        _run("ip", "netns", "delete", self._name)

    def _shape(self, how: tuple[str, ...]) -> None:
        link = self._links[0]
        for prefix, device in (((), link), (self.prefix, f"{link}p")):
            _run(*prefix, "tc", "qdisc", "replace", "dev", device, "root", "tbf", *how)

    def _far(self, *arguments: str) -> None:
        _run("ip", "-n", self._name, *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"'{' '.join(command)}' ended with {done.returncode}: {done.stderr.strip()}")
