# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One look at the model repositories in poll mode."""

import logging
from collections.abc import Collection
from typing import Protocol

from backends.api.errors import TritonError
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)


class NamesSource(Protocol):
    """Lists the repositories."""

    async def list_names(self) -> tuple[Collection[str], Collection[str]]:
        """Return the models there are, and those that are in more than one repository.

        Raises:
            TritonError: No repository can be listed.
        """


async def poll_once(source: NamesSource, lifecycle: ModelLifecycle) -> None:
    """Load what is new or changed in the repositories and unload what is gone.

    What cannot be listed, loaded or unloaded is logged and tried again by the next poll.
    """
    try:
        names, duplicates = await source.list_names()
    except TritonError as error:
        _log.error("failed to poll the model repositories: %s", error.message)
        return
    wanted = set(names) - set(duplicates)
    await lifecycle.load_all(sorted(wanted), is_poll=True)
    records = lifecycle.records.items()
    await lifecycle.unload_all(n for n, r in records if n not in wanted and r.versions)
