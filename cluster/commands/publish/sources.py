# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where ``manta model add`` takes a model from: a path, or a location with one model."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.api.errors import InvalidArgumentError
from cluster.commands.publish.pulling import pull_model
from cluster.commands.publish.stored_models import list_models, require_version
from cluster.repository.configs import CONFIG_FILE
from cluster.repository.stores.location import parse_location
from cluster.repository.stores.opening import open_store


@contextmanager
def local_source(text: str) -> Iterator[Path]:
    """Give a model's file or folder; what is in a store is copied, and the copy removed afterwards.

    Args:
        text: A path, or a location in which there is one model: its newest version counts.

    Raises:
        InvalidArgumentError: There is another number of models.
        TritonError: The location is none, or cannot be read.
    """
    at = parse_location(text)
    if at.is_local:
        yield Path(at.path)
        return
    store = open_store(at)
    try:
        models = list(list_models(store))
        if len(models) != 1:
            names = ", ".join(model.name for model in models) or "none"
            raise InvalidArgumentError(
                f"'{store.location}' has the models {names}, expected one; copy one of them with "
                f"'manta model pull NAME --at {store.location} --to DIR' and add that"
            )
        version = require_version(store, models[0], None)
        with tempfile.TemporaryDirectory(prefix="manta-add-") as folder:
            model = pull_model(store, models[0], (version,), Path(folder))
            has_config = (model / CONFIG_FILE).is_file()
            yield model if has_config else model / str(version)
    finally:
        store.close()
