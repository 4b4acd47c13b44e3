# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the rules of ``manta doctor`` look at, as plain data; no secret is among it. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class FileKind(StrEnum):
    """What a file or folder is for."""

    KEY = "private key"
    CERTIFICATE = "certificate"
    POLICY = "access policy"
    CONFIG = "file of options"
    CACHE = "model cache"
    REPOSITORY = "model repository"
    TOKEN = "Ray token"  # noqa: S105 - the kind of a file


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file or folder that options or variables name.

    Attributes:
        mode: Permission bits; -1 when it is not there or cannot be looked at.
        owner_uid: Its owner; -1 likewise.
        expires_in_s: Seconds until a certificate is no longer valid; None for other files.
    """

    kind: FileKind
    path: str
    mode: int = -1
    owner_uid: int = -1
    expires_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class PortFact:
    """A port that the server opens.

    Attributes:
        name: ``HTTP``, ``gRPC`` or ``metrics``.
        flag: Of its address.
        address: What it binds.
        is_encrypted: Whether it is TLS.
        knows_clients: Whether that asks clients for certificates.
    """

    name: str
    flag: str
    address: str
    is_encrypted: bool = False
    knows_clients: bool = False


@dataclass(frozen=True, slots=True)
class RayFact:
    """Ray, as its variables and perhaps a running cluster tell.

    Attributes:
        is_own: Whether the server starts a Ray of its own.
        is_running: Whether the cluster was looked at; what follows, but ``has_tls``, is of it.
        node_address: Of the node this runs on.
        auth_mode: ``token``, ``disabled``, or empty for what Ray takes by default.
        has_tls: RAY_USE_TLS.
        dashboard: host:port of the dashboard; empty without one.
    """

    is_own: bool = True
    is_running: bool = False
    node_count: int = 1
    node_address: str = "127.0.0.1"
    auth_mode: str = ""
    has_tls: bool = False
    dashboard: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one deployment.

    Attributes:
        uid: User that the server runs as.
        lane_tls: ``--lane-tls``.
        has_restrictions: Whether any API needs a header.
        control_mode: ``--model-control-mode``.
        allows_client_memory: ``--allow-client-shm``.
        requires_signatures: ``--require-signed-models``.
        shown_secrets: Secret flags given on the command line.
        plain_repositories: Repositories at locations without encryption.
        conflicts: Requirements that the installed versions do not meet, one line each.
        is_of_server: Whether the options are those of a server that runs.
    """

    ports: tuple[PortFact, ...] = ()
    ray: RayFact = RayFact()
    uid: int = 1000
    lane_tls: str = "ray"
    has_policy: bool = False
    has_restrictions: bool = False
    control_mode: str = "none"
    allows_client_memory: bool = False
    requires_signatures: bool = False
    has_remote_repositories: bool = False
    shown_secrets: tuple[str, ...] = ()
    plain_repositories: tuple[str, ...] = ()
    files: tuple[FileFact, ...] = ()
    conflicts: tuple[str, ...] = ()
    is_of_server: bool = False
