# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Joins the Ray cluster of a running server, for commands beside it."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Final

import grpc
import ray

from backends.api.errors import UnavailableError
from deployments.instance.spec import NAMESPACE

_ASKED: Final = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo"
_ASK_TIMEOUT_S: Final = 5.0


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a driver of a cluster.

    Args:
        address: As for ``ray.init``; ``auto`` is the cluster that runs on this machine.

    Raises:
        UnavailableError: There is none, or it asks for a token and is shown none or another.
    """
    # Ray would try for 20 seconds. A token goes to an address only where that is said.
    shows_token = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    if not shows_token and _wants_token(address):
        raise _refused(address)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        if _wants_token(address):
            raise _refused(address) from error
        # Ray's own text goes on with what to do about variables.
        why = str(error).partition(". ")[0].rstrip(".")
        raise UnavailableError(
            f"no Ray cluster at '{address}': {why}. Start a server, or name its cluster with"
            " --ray-address"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _wants_token(address: str) -> bool:
    """Whether a host and port asks for a token; not of ``auto``, which finds Ray's own."""
    return ":" in address and "/" not in address and bool(asks_for_token(address))


def _refused(address: str) -> UnavailableError:
    return UnavailableError(
        f"the Ray cluster at '{address}' asks for a token, and not for the one that it was shown,"
        " if any; set RAY_AUTH_MODE=token with its RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
    )


def asks_for_token(gcs_address: str) -> bool | None:
    """Ask a GCS without a token; whether it refuses, or None if it does not understand.

    Variables of this process do not tell: they may be others than those that Ray was started with.
    """
    with grpc.insecure_channel(gcs_address) as channel:
        try:
            channel.unary_unary(_ASKED)(b"", timeout=_ASK_TIMEOUT_S)
        except grpc.RpcError as error:
            # Under Ray's TLS nobody answers clear text.
            is_refused = isinstance(error, grpc.Call) and (
                error.code() is grpc.StatusCode.UNAUTHENTICATED
            )
            return True if is_refused else None
    return False
