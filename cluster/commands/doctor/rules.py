# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a deployment, and how to mend it. Pure."""

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from cluster.commands.doctor.facts import Facts, FileFact, FileKind, PortFact

_GROUP_OR_OTHERS: Final = 0o077
_WRITE_FOR_OTHERS: Final = 0o022
_SOON_S: Final = 14 * 24 * 3600.0
# What may be read by others, and only not be written.
_PUBLIC: Final = frozenset({FileKind.CERTIFICATE, FileKind.REPOSITORY, FileKind.CONFIG})
_CHANGING_MODES: Final = frozenset({"explicit"})


class Severity(StrEnum):
    """How bad it is: somebody can take over the server; somebody may; good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that leaves the deployment open.

    Attributes:
        rule: Short name, for programs.
    """

    severity: Severity
    rule: str
    what: str
    why: str
    mend: str

    def as_json(self) -> dict[str, str]:
        """Return it with plain values."""
        return {key: str(value) for key, value in asdict(self).items()}


def examine(facts: Facts) -> list[Finding]:
    """Return all findings, the worst first."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    order = list(Severity)
    return sorted(found, key=lambda each: order.index(each.severity))


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address, which may have a port."""
    host = address.rpartition(":")[0] if address.count(":") == 1 else address
    host = host.strip("[]")
    if host == "localhost" or host.startswith("unix"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _open_ports(facts: Facts) -> list[PortFact]:
    return [port for port in facts.ports if not is_loopback(port.address)]


def _ray_token(facts: Facts) -> Iterator[Finding]:
    ray = facts.ray
    if ray.auth_mode.lower() == "token":
        return
    reached = not is_loopback(ray.node_address) or ray.node_count > 1 or not ray.is_own
    # A Ray of the server's own makes a token for itself unless that is switched off.
    is_open = reached or ray.auth_mode.lower() == "disabled"
    if is_open:
        yield Finding(
            Severity.ERROR if reached else Severity.WARNING,
            "ray-token",
            "Ray answers who shows no token"
            if ray.is_running
            else f"Ray asks nobody for a token (RAY_AUTH_MODE is '{ray.auth_mode}')",
            "whoever reaches a port of Ray runs any code on all nodes",
            "set RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH on every"
            " node before Ray starts; keep Ray's ports from everybody but the nodes",
        )


def _ray_tls(facts: Facts) -> Iterator[Finding]:
    if facts.ray.has_tls or (facts.ray.is_own and facts.ray.node_count == 1):
        return
    yield Finding(
        Severity.WARNING,
        "ray-tls",
        "Ray's connections between nodes are in clear text",
        "who reads the network learns Ray's token and the secret of the lanes",
        "set RAY_USE_TLS=1 with RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT on"
        " every node, or have the network encrypt",
    )


def _dashboard(facts: Facts) -> Iterator[Finding]:
    address = facts.ray.dashboard
    if not address or is_loopback(address):
        return
    is_asked = facts.ray.auth_mode.lower() == "token"
    yield Finding(
        Severity.WARNING if is_asked else Severity.ERROR,
        "ray-dashboard",
        f"Ray's dashboard listens at {address}",
        "its job API runs any code" + (" for whoever has the token" if is_asked else ""),
        "start Ray with --dashboard-host 127.0.0.1, or let a network policy keep others away",
    )


def _lanes(facts: Facts) -> Iterator[Finding]:
    if facts.ray.is_own and facts.ray.node_count == 1:
        return
    is_clear = facts.lane_tls == "off" or (facts.lane_tls == "ray" and not facts.ray.has_tls)
    if is_clear:
        yield Finding(
            Severity.WARNING,
            "lane-tls",
            f"tensors travel between nodes in clear text (--lane-tls={facts.lane_tls})",
            "who reads the network reads requests and answers, and model files",
            "give --lane-tls=derived, or ray together with Ray's TLS",
        )


def _ports(facts: Facts) -> Iterator[Finding]:
    for port in _open_ports(facts):
        if port.name == "metrics" and not facts.has_policy:
            if not port.knows_clients:
                yield Finding(
                    Severity.NOTE,
                    "metrics-open",
                    f"the metrics port binds {port.address} and asks nobody who they are",
                    "names of models, load and errors are told to whoever asks",
                    f"give {port.flag} an address that only the collector reaches, an access"
                    " policy, or --metrics-use-ssl-mutual",
                )
        elif not port.is_encrypted:
            name = port.name.lower()
            yield Finding(
                Severity.WARNING,
                f"{name}-clear-text",
                f"{port.name} binds {port.address} without TLS",
                "credentials and tensors can be read and changed on their way",
                f"give --{name}-use-ssl with a certificate, or {port.flag}=127.0.0.1 behind a"
                " proxy that has TLS",
            )


def _access(facts: Facts) -> Iterator[Finding]:
    ports = [port for port in _open_ports(facts) if port.name != "metrics"]
    if facts.has_policy or not ports or all(port.knows_clients for port in ports):
        return
    changes = facts.control_mode in _CHANGING_MODES and not facts.has_restrictions
    yield Finding(
        Severity.ERROR if changes else Severity.WARNING,
        "no-access-policy",
        "whoever reaches the ports may ask for anything"
        + (": also load models, with files of theirs" if changes else ""),
        "a load with files runs the code in them"
        if changes
        else "models, statistics and settings are open to all",
        "name an --access-policy; or restrict APIs by --http-restricted-api and"
        " --grpc-restricted-protocol, or ask for client certificates",
    )


def _client_memory(facts: Facts) -> Iterator[Finding]:
    if facts.allows_client_memory and _open_ports(facts) and not facts.has_policy:
        yield Finding(
            Severity.WARNING,
            "client-memory",
            "clients may register shared memory (--allow-client-shm)",
            "the server reads and writes any shared memory of this machine that its user may, at"
            " the word of a client",
            "leave it off, or grant the role shared-memory to local clients only",
        )


def _repositories(facts: Facts) -> Iterator[Finding]:
    for location in facts.plain_repositories:
        yield Finding(
            Severity.WARNING,
            "repository-clear-text",
            f"models come from {location} without TLS",
            "who changes them on the way runs code in the server",
            "use https, or sign the models (--require-signed-models)",
        )
    if facts.has_remote_repositories and not facts.requires_signatures:
        yield Finding(
            Severity.NOTE,
            "unsigned-models",
            "models of a store are loaded without a signature",
            "who may write to the store runs code in the server",
            "sign models with 'manta model sign' and give --require-signed-models with"
            " --trusted-keys",
        )


def _user(facts: Facts) -> Iterator[Finding]:
    if facts.uid == 0:
        yield Finding(
            Severity.WARNING,
            "root",
            "the server runs as root",
            "so does the code of every model",
            "run it as a user of its own",
        )


def _secrets(facts: Facts) -> Iterator[Finding]:
    for flag in facts.shown_secrets:
        yield Finding(
            Severity.WARNING,
            "secret-on-command-line",
            f"{flag} has its secret on the command line",
            "it is in the shell's history, and in 'ps' until the server has started",
            "give it in a file that --config names, or as a MANTA_ variable",
        )


def _files(facts: Facts) -> Iterator[Finding]:
    for file in facts.files:
        yield from _of_file(file, facts.uid)


def _of_file(file: FileFact, uid: int) -> Iterator[Finding]:
    shown = f"{file.kind} '{file.path}'"
    if file.mode < 0:
        if file.kind is not FileKind.CACHE:
            yield Finding(
                Severity.WARNING, "file-missing", f"{shown} is not there or cannot be looked at",
                "the server may not start", "create it, or let the server's user read it",
            )  # fmt: skip
        return
    if file.mode & _WRITE_FOR_OTHERS:
        yield Finding(
            Severity.ERROR, "file-writable", f"{shown} may be written by others ({file.mode:o})",
            "they decide what the server trusts or runs", f"chmod go-w {file.path}",
        )  # fmt: skip
    elif file.kind not in _PUBLIC and file.mode & _GROUP_OR_OTHERS:
        yield Finding(
            Severity.WARNING, "file-readable", f"{shown} may be read by others ({file.mode:o})",
            "who has it can be the server, or read what it keeps", f"chmod go-rwx {file.path}",
        )  # fmt: skip
    if file.owner_uid not in (-1, 0, uid):
        yield Finding(
            Severity.WARNING, "file-owner", f"{shown} belongs to user {file.owner_uid}",
            "that user can change it", f"chown {uid} {file.path}",
        )  # fmt: skip
    if file.expires_in_s is not None and file.expires_in_s < _SOON_S:
        is_over = file.expires_in_s < 0
        yield Finding(
            Severity.ERROR if is_over else Severity.WARNING,
            "certificate-expires",
            f"{shown} " + ("has expired" if is_over else "expires within two weeks"),
            "clients refuse to connect",
            "renew it",
        )


def _versions(facts: Facts) -> Iterator[Finding]:
    for line in facts.conflicts:
        yield Finding(
            Severity.WARNING,
            "versions",
            line,
            "this combination is not tested",
            "install with constraints.txt",
        )


_RULES: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    _ray_token,
    _ray_tls,
    _dashboard,
    _lanes,
    _ports,
    _access,
    _client_memory,
    _repositories,
    _user,
    _secrets,
    _files,
    _versions,
)
