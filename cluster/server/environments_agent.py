# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray's agent for runtime environments, which runs from the first request for one on.

A raylet must have that agent and ends with it, yet a server whose models bring no environment never
asks it for anything. So a small process listens on its port, and becomes the agent once somebody
connects: the same process, which the raylet watches, and the same socket, in which what has been
sent waits.

Before that it imports next to nothing, as it waits for as long as most servers run: `pathlib`,
`contextlib` and `typing` would double its memory.
"""

import _socket
import os
import select
import sys

_ADDRESS = "--node-ip-address="
_PORT = "--runtime-env-agent-port="
_FOLDER = "--session-dir="
_NODE = "--node-id="
# Where a raylet looks for the port of an agent that has chosen it.
_PORT_FILE = "runtime_env_agent_port"
_BACKLOG = 128
_OWN = "/runtime_env/agent/main.py"
# Python's options before the agent's file.
_UNBUFFERED = "-u"


def command(agent: list[str]) -> list[str]:
    """Return what a raylet runs for its agent; what is no such command stays as it is.

    Args:
        agent: Ray's command: an interpreter, "-u", the agent's file and its arguments.
    """
    if len(agent) < 3 or agent[1] != _UNBUFFERED or not agent[2].endswith(_OWN):  # noqa: PLR2004
        return agent
    return [sys.executable, "-I", "-S", __file__, *agent[2:]]


def wait_for_a_request(arguments: list[str]) -> int | None:
    """Listen where the agent would until somebody connects.

    Args:
        arguments: The agent's file and its arguments.

    Returns:
        The socket's descriptor; None when the raylet, which is this process's parent, has ended.
    """
    raylet = os.getppid()
    address, port, folder, node = (
        next(each.removeprefix(name) for each in arguments if each.startswith(name))
        for name in (_ADDRESS, _PORT, _FOLDER, _NODE)
    )
    listener = _socket.socket(_socket.AF_INET6 if ":" in address else _socket.AF_INET)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(_BACKLOG)
    _tell_port(f"{_PORT_FILE}_{node}", folder, listener.getsockname()[1])
    number = listener.detach()
    if _is_asked(number, raylet):
        return number
    os.close(number)
    return None


def _is_asked(number: int, raylet: int) -> bool:
    """Wait until somebody connects or the raylet has ended; tell which."""
    try:
        ended = os.pidfd_open(raylet)
    except ProcessLookupError:
        return False
    # One that has ended already has left this process to the first one.
    is_there = raylet == os.getppid() != 1
    readable = select.select([number, ended], [], [])[0] if is_there else [ended]
    os.close(ended)
    return ended not in readable


def _tell_port(name: str, folder: str, port: int) -> None:
    made = f"{folder}/.{name}"
    with open(made, "w") as file:  # noqa: PTH123 - see above
        file.write(str(port))
    os.rename(made, f"{folder}/{name}")  # noqa: PTH104


def run(number: int, script: str) -> None:
    """Run the agent's file; where it binds a socket to the port, that is the one that listens.

    Args:
        number: Of the socket's descriptor.
        script: The file; `sys.argv` has its arguments.
    """
    import runpy  # noqa: PLC0415 - only by the agent
    import socket  # noqa: PLC0415

    listener = socket.socket(fileno=number)
    place = listener.getsockname()[:2]
    kind = socket.socket
    own = kind.bind

    def bind(self: socket.socket, address: tuple[str, int]) -> None:
        if self.type != socket.SOCK_STREAM or tuple(address[:2]) != place:
            own(self, address)
            return
        kind.bind = own  # type: ignore[method-assign]
        os.dup2(listener.fileno(), self.fileno(), inheritable=False)
        listener.close()

    kind.bind = bind  # type: ignore[method-assign, assignment]
    runpy.run_path(script, run_name="__main__")


def main(arguments: list[str]) -> None:
    """Wait as the small process, or be the agent: with a descriptor and the agent's command."""
    if arguments[0].isdecimal():
        sys.argv = arguments[1:]
        if not sys.flags.safe_path:
            # Of this file, which the agent's takes over.
            sys.path[0] = os.path.dirname(arguments[1])  # noqa: PTH120
        run(int(arguments[0]), arguments[1])
        return
    number = wait_for_a_request(arguments)
    if number is not None:
        os.set_inheritable(number, True)
        agent = [sys.executable, _UNBUFFERED, __file__, str(number), *arguments]
        os.execv(sys.executable, agent)  # noqa: S606 - the same process


if __name__ == "__main__":
    main(sys.argv[1:])
