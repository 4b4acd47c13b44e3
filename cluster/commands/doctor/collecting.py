# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Collects the facts: options, variables, files, installed versions, and a running Ray."""

import importlib.metadata
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from backends.api.errors import TritonError
from cluster.commands.doctor.facts import Facts, FileFact, FileKind, PortFact, RayFact
from cluster.options.parsing import ServerOptions
from cluster.options.table import FLAGS
from cluster.repository.stores.location import parse_location

_DISTRIBUTION: Final = "manta-serve"
_FILES: Final = (
    ("http_server_key", FileKind.KEY),
    ("grpc_server_key", FileKind.KEY),
    ("http_server_cert", FileKind.CERTIFICATE),
    ("grpc_server_cert", FileKind.CERTIFICATE),
    ("http_root_cert", FileKind.CERTIFICATE),
    ("grpc_root_cert", FileKind.CERTIFICATE),
    ("trusted_keys", FileKind.CERTIFICATE),
    ("access_policy", FileKind.POLICY),
    ("config", FileKind.CONFIG),
    ("model_cache_directory", FileKind.CACHE),
)
_RAY_FILES: Final = (
    ("RAY_TLS_SERVER_KEY", FileKind.KEY),
    ("RAY_TLS_SERVER_CERT", FileKind.CERTIFICATE),
    ("RAY_TLS_CA_CERT", FileKind.CERTIFICATE),
    ("RAY_AUTH_TOKEN_PATH", FileKind.TOKEN),
)
_LARGEST_CERTIFICATE_BYTES: Final = 1 << 20


def collect(options: ServerOptions, environment: Mapping[str, str]) -> Facts:
    """Return the facts of a planned deployment."""
    return Facts(
        ports=tuple(_ports(options)),
        ray=_planned_ray(options, environment),
        uid=os.getuid(),
        lane_tls=options.lane_tls,
        has_policy=bool(getattr(options, "access_policy", "")),
        has_restrictions=bool(options.http_restricted_api and options.grpc_restricted_protocol),
        control_mode=options.model_control_mode,
        allows_client_memory=options.allow_client_shm,
        requires_signatures=options.require_signed_models,
        has_remote_repositories=any(map(_is_remote, options.model_repository)),
        shown_secrets=tuple(
            f"--{flag.name}"
            for name, flag in FLAGS.items()
            if flag.is_secret and options.sources.get(name) == "flag"
        ),
        plain_repositories=tuple(
            _shown(each) for each in options.model_repository if "http://" in each
        ),
        files=tuple(_files(options, environment)),
        conflicts=tuple(_conflicts()),
    )


def look_at_cluster(facts: Facts, address: str) -> Facts:
    """Return the facts with what a running cluster tells of itself, and of the server on it.

    Raises:
        UnavailableError: There is none.
    """
    from cluster.actors.seen_cluster import see_cluster  # noqa: PLC0415 - Ray takes a second

    seen = see_cluster(address or "auto")
    if seen.options is not None:
        facts = replace(collect(seen.options, os.environ), is_of_server=True)
    mode = {True: "token", False: "disabled", None: facts.ray.auth_mode}[seen.asks_for_token]
    found = replace(
        facts.ray,
        is_running=True,
        auth_mode=mode,
        node_count=seen.node_count,
        node_address=seen.node_address,
        dashboard=seen.dashboard,
    )
    return replace(facts, ray=found)


def _planned_ray(options: ServerOptions, environment: Mapping[str, str]) -> RayFact:
    host = environment.get("RAY_DASHBOARD_HOST", "127.0.0.1")
    return RayFact(
        is_own=not options.ray_address,
        auth_mode=environment.get("RAY_AUTH_MODE", environment.get("RAY_auth_mode", "")),
        has_tls=environment.get("RAY_USE_TLS", "0").lower() in {"1", "true"},
        dashboard=f"{host}:8265" if options.dashboard else "",
    )


def _ports(options: ServerOptions) -> Iterator[PortFact]:
    for name in ("HTTP", "gRPC", "metrics"):
        protocol = name.lower()
        if getattr(options, f"allow_{protocol}"):
            yield PortFact(
                name,
                f"--{protocol}-address",
                getattr(options, f"{protocol}_address"),
                getattr(options, f"{protocol}_use_ssl"),
                getattr(options, f"{protocol}_use_ssl_mutual"),
            )


def _is_remote(location: str) -> bool:
    """Whether a location is in a store; not what is no location."""
    try:
        return not parse_location(location).is_local
    except TritonError:
        return False


def _shown(location: str) -> str:
    scheme, separator, rest = location.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _files(options: ServerOptions, environment: Mapping[str, str]) -> Iterator[FileFact]:
    named = [(getattr(options, name, ""), kind) for name, kind in _FILES]
    named += [(environment.get(name, ""), kind) for name, kind in _RAY_FILES]
    named += [(each, FileKind.REPOSITORY) for each in options.model_repository if "://" not in each]
    for path, kind in dict.fromkeys(named):
        if path:
            yield _file(path, kind)


def _file(path: str, kind: FileKind) -> FileFact:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return FileFact(kind, path)
    left_s = _certificate_left_s(Path(path)) if kind is FileKind.CERTIFICATE else None
    return FileFact(kind, path, status.st_mode & 0o777, status.st_uid, left_s)


def _certificate_left_s(path: Path) -> float | None:
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra

        with path.open("rb") as file:
            certificate = x509.load_pem_x509_certificate(file.read(_LARGEST_CERTIFICATE_BYTES))
    except (ImportError, OSError, ValueError):
        return None
    return certificate.not_valid_after_utc.timestamp() - time.time()


def _conflicts() -> Iterator[str]:
    """Yield what this distribution requires and the installed ones do not meet."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - Ray brings it

    try:
        required = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for text in required:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"{requirement.name} is not installed, and {requirement} is required"
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} {version} is installed, and {requirement} is required"
