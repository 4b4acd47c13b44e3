# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What of the options has gone into a controller's durable state. Pure.

A controller that goes on where another has ended has that one's state: what clients have loaded and
set. Options that have changed since then still take effect: compared are the options of then and of
now, and only where they differ do they win over what clients did.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from hashlib import blake2b

import msgspec

from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import resource_limits, settings_at_start
from deployments.settings.server_settings import ServerSettings

_EXPLICIT = "explicit"


class StartedWith(msgspec.Struct, frozen=True):
    """What is kept of the options.

    Attributes:
        instances: Digest of the options that are part of an instance's own digest; see
            `RepositorySource`.
        load_model: ``--load-model``; nothing where the mode does not heed it.
        settings: What the options set of what clients may change.
    """

    instances: str
    load_model: tuple[str, ...]
    settings: ServerSettings


def started_with(options: ServerOptions) -> StartedWith:
    """Return what is to be kept of the options."""
    instances = (
        options.backend_config,
        options.backend_directory,
        options.cpus_per_instance,
        resource_limits(options),
        options.lane_tls,
    )
    return StartedWith(
        blake2b(repr(instances).encode(), digest_size=16).hexdigest(),
        tuple(options.load_model) if options.model_control_mode == _EXPLICIT else (),
        settings_at_start(options),
    )


def settings_now(
    saved: ServerSettings | None, then: StartedWith | None, now: ServerSettings
) -> ServerSettings:
    """Return what holds: what clients have set, but for what the options have changed since.

    Args:
        saved: What clients have set; None if nothing.
        then: Of the options of then; None if that is not known.
        now: What the options of now set.
    """
    if saved is None:
        return now
    if then is None:
        return saved
    before = then.settings
    log = {
        each.name: getattr(now.log, each.name)
        for each in fields(now.log)
        if getattr(now.log, each.name) != getattr(before.log, each.name)
    }
    saved = replace(saved, log=replace(saved.log, **log), metrics=now.metrics)
    if now.trace_at_start == before.trace_at_start:
        return saved
    return replace(
        saved,
        # Another revision: sampling starts anew.
        trace=replace(now.trace, revision=saved.trace.revision + 1),
        trace_at_start=now.trace_at_start,
        trace_uses={key: uses for key, uses in saved.trace_uses.items() if key},
    )


def wanted_now(
    wanted: Sequence[str],
    asked: Collection[str],
    named_then: Collection[str],
    named_now: Sequence[str],
) -> list[str]:
    """Return the models to be loaded in explicit mode after ``--load-model`` has changed.

    Args:
        wanted: Those that were to be loaded.
        asked: Those of them that clients have asked for.
        named_then: Those that the option named then.
        named_now: Those that it names now.
    """
    kept = [n for n in wanted if n in asked or n in named_now or n not in named_then]
    new = [name for name in named_now if name not in named_then]
    return list(dict.fromkeys((*kept, *new)))
