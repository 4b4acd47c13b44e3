# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts this release in the place of the one that a cluster runs, without losing a request.

The steps, each of which leaves a server that serves:

1. Both releases say which versions of their contracts they speak; too large a gap is refused.
2. A worker imports this release, so that nothing ends for one that cannot start.
3. The controller is replaced. The new one reads what the old one has written down, and adopts all
   instances. Routers go on with their last table meanwhile.
4. The new controller replaces the instances one by one. The first that does not load ends this, and
   the others go on as they are.
5. The ingresses are replaced: new ones take over the listening sockets, and the old ones drain.

What was stopped is taken up by the same command; a release that proves bad is left by the command
of the other one.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ray

from backends.api.errors import NotFoundError, UnavailableError, UnsupportedError
from cluster.controller.ownership import Owner
from cluster.models.renewal import RenewalPhase
from cluster.options.parsing import ServerOptions
from cluster.release import own_release
from cluster.server import serve_application
from cluster.server.app import application
from cluster.server.code_place import RuntimeEnv, find_code
from cluster.server.start_controller import (
    ToldRelease,
    find_controller,
    left_behind,
    replace_controller,
    require_compatible,
    told_release,
)

_LOOK_S: Final = 0.5
_ANSWER_TIMEOUT_S: Final = 60.0

Progress = Mapping[str, Any]


class RunningServer:
    """The cluster that this process is connected with, and the server that runs on it."""

    find = staticmethod(find_controller)
    release_of = staticmethod(told_release)
    left_behind = staticmethod(left_behind)
    find_code = staticmethod(find_code)
    replace = staticmethod(replace_controller)
    ingress_build = staticmethod(serve_application.ingress_build)
    sleep = staticmethod(time.sleep)

    def ask(self, handle: Any, method: str) -> Any:
        """Call a controller's method and return its answer."""
        return ray.get(getattr(handle, method).remote(), timeout=_ANSWER_TIMEOUT_S)

    def deploy(self, options: ServerOptions, owner: Owner, runtime_env: RuntimeEnv) -> None:
        """Replace the ingresses and wait until those of this release serve alone."""
        # A driver without a lease has a Ray of its own, of one node.
        serve_application.start_serve()
        app = application(options, follow_nodes=owner.lease_s > 0, runtime_env=runtime_env)
        serve_application.deploy(app, lambda: None)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an upgrade is.

    Attributes:
        controller: Release of the controller.
        renewal: What it says of the instances; see `ModelController.renewal`.
        ingress: Digest of the ingresses' release; empty when there are none.
    """

    controller: str
    renewal: Progress
    ingress: str

    @property
    def as_row(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return {"controller": self.controller, "ingress": self.ingress, **self.renewal}


def standing(server: RunningServer) -> Standing:
    """Return how far an upgrade is, whichever release has begun it.

    Raises:
        NotFoundError: No server runs on the cluster.
        UnsupportedError: It is of a release from before upgrades.
    """
    handle = _existing(server.find())
    theirs = server.release_of(handle)
    if not theirs.name:
        require_compatible(theirs)
    digest = server.ingress_build().partition("-")[0]
    return Standing(theirs.name, server.ask(handle, "renewal"), digest)


def upgrade(server: RunningServer, say: Callable[[str], None]) -> None:
    """Upgrade the server of a cluster to the release of this process; says a line for each step.

    Raises:
        NotFoundError: No server runs on the cluster.
        UnsupportedError: Its release is too far from this one, or an application on Serve owns it.
        UnavailableError: Workers do not find this release, or an instance of it did not load.
        InternalError: The ingresses of this release do not start.
    """
    own = own_release()
    handle = server.find()
    theirs, options, owner = _found(server, handle)
    if owner.is_deployed is not None:
        raise UnsupportedError(
            f"the server belongs to {owner.description}; deploy it anew from release {own}, which"
            " upgrades it"
        )
    runtime_env = server.find_code()
    if handle is not None and theirs.is_own:
        say(f"the controller runs release {own} already")
        server.ask(handle, "renew")
    else:
        say(f"from release {theirs.name} to {own}")
        handle = server.replace(handle, theirs, options, owner, runtime_env)
    _wait_renewed(server, handle, say)
    if server.ingress_build().startswith(f"{own.digest}-"):
        say(f"the ingresses run release {own} already")
    else:
        server.deploy(options, owner, runtime_env)
        say("the ingresses are replaced")
    say(f"upgraded to release {own}")


def _found(server: RunningServer, handle: Any) -> tuple[ToldRelease, ServerOptions, Owner]:
    """Return release, options and owner of the server.

    Raises:
        NotFoundError: There is none.
        UnsupportedError: Its release is too far from this one.
        UnavailableError: It is about to end.
    """
    left = server.left_behind() if handle is None else None
    if left is not None:
        theirs = ToldRelease(left.release, left.protocols)
        require_compatible(theirs)
        return theirs, left.options, left.owner
    theirs = server.release_of(_existing(handle))
    require_compatible(theirs)
    options: ServerOptions | None = server.ask(handle, "server_options")
    if options is None:
        raise UnavailableError("the server on this cluster is about to end; start it anew")
    return theirs, options, server.ask(handle, "owner")[0]


def _wait_renewed(server: RunningServer, handle: Any, say: Callable[[str], None]) -> None:
    said = ""
    while True:
        progress: Progress = server.ask(handle, "renewal")
        if progress["phase"] != RenewalPhase.RENEWING:
            break
        now = f"instances: {progress['done']} replaced, {progress['left']} left"
        if now != said:
            say(now)
            said = now
        server.sleep(_LOOK_S)
    if progress["phase"] == RenewalPhase.FAILED:
        raise UnavailableError(
            f"the upgrade has stopped: {progress['reason']}. {progress['left']} instances and the"
            " ingresses go on as they are; run 'manta upgrade' again to try once more, or that of"
            " the other release to go back"
        )
    say(f"instances: {progress['done']} replaced, none left")


def _existing(handle: Any) -> Any:
    if handle is None:
        raise NotFoundError(
            "no Manta server runs on this Ray cluster; start one with 'manta serve', or name"
            " another cluster with --ray-address"
        )
    return handle
