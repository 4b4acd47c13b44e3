# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The values of secret options apart from the others. Pure.

Ray and Serve keep the arguments of actors for as long as they may start them again, and hand them
from process to process. Secrets are not among them: they lie in one row of the cluster's store,
beside the key of the lanes, and who needs them reads it.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec

from backends.api.errors import UnavailableError
from cluster.options.parsing import ServerOptions
from cluster.options.table import FLAGS

# Of the cluster's store.
SECRETS_KEY: Final = b"controller/secret-options"
_NAMES: Final = tuple(name for name, flag in FLAGS.items() if flag.is_secret)


def has_secrets(options: ServerOptions) -> bool:
    """Whether any secret option has a value."""
    return any(getattr(options, name) for name in _NAMES)


def without_secrets(options: ServerOptions) -> ServerOptions:
    """Return the options as if no secret one had been given."""
    return replace(options, **dict.fromkeys(_NAMES, ()))  # type: ignore[arg-type]


def encode_secrets(options: ServerOptions) -> bytes:
    """Return the values of the secret options as a row of the store."""
    return msgspec.msgpack.encode({name: getattr(options, name) for name in _NAMES})


def read_secrets(row: bytes | None) -> dict[str, Any]:
    """Return the values of secret options, by name, that a row of the store has.

    Raises:
        UnavailableError: There is no row: what was to be restricted must not be open.
    """
    if row is None:
        raise UnavailableError(
            "the values of secret options are not in the cluster's store any more; start the"
            " server again"
        )
    values = msgspec.msgpack.decode(row)
    return {name: _frozen(values[name]) for name in _NAMES if name in values}


def with_secrets(options: ServerOptions, row: bytes | None) -> ServerOptions:
    """Return options with the values that a row of the store has.

    Raises:
        UnavailableError: As `read_secrets`.
    """
    return replace(options, **read_secrets(row))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
