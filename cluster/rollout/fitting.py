# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a rollout fits the model as it is loaded; pure."""

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from cluster.models.states import ModelRecord
from deployments.rollouts.spec import Rollout


def check_fits(rollout: Rollout, record: ModelRecord) -> None:
    """Check that all versions are there, and that clients may be answered by any of them.

    Raises:
        InvalidArgumentError: A version does not take requests, or versions differ in how they
            are asked.
    """
    model = shown(record.name)
    configs: dict[int, ModelConfig] = {}
    for version in rollout.versions:
        known = record.versions.get(version)
        if known is None or not known.is_ready or known.config is None:
            raise InvalidArgumentError(_not_loaded(model, version, record.ready_versions))
        configs[version] = known.config
    first = rollout.versions[0]
    for version, config in configs.items():
        for what, is_so, shall_be in (
            ("is decoupled", config.decoupled, configs[first].decoupled),
            (
                "batches sequences",
                config.sequence_batching is not None,
                configs[first].sequence_batching is not None,
            ),
        ):
            if is_so is not shall_be:
                one, other = (version, first) if is_so else (first, version)
                raise InvalidArgumentError(
                    f"version {one} of model '{model}' {what} and version {other} does not:"
                    " a request cannot be answered by either; give both versions the same config"
                )


def _not_loaded(model: str, version: int, ready: tuple[int, ...]) -> str:
    there = ", ".join(map(str, ready)) or "none"
    named = ", ".join(str(each) for each in sorted({*ready, version}))
    return (
        f"the rollout names version {version} of model '{model}', which takes no requests; ready"
        f" are: {there}. Put the version into the repository, have config.pbtxt's version_policy"
        f" load it, for example 'version_policy {{ specific {{ versions: [ {named} ] }} }}', load"
        " the model again and set the rollout then"
    )
