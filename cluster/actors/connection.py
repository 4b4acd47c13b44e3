# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Joins the Ray cluster of a running server, for commands beside it."""

import contextlib
import logging
from collections.abc import Iterator

import ray

from backends.api.errors import UnavailableError
from deployments.instance.spec import NAMESPACE


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a driver of a cluster.

    Args:
        address: As for ``ray.init``; ``auto`` is the cluster that runs on this machine.

    Raises:
        UnavailableError: There is none.
    """
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"no Ray cluster at '{address}': {error}; start a server, or name its cluster with"
            " --ray-address"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
