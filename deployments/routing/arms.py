# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the version that answers, where a model has a rollout."""

from collections.abc import Callable, Mapping

from backends.api.errors import UnavailableError
from backends.api.request import InferenceRequest
from deployments.routing.mirror import Mirror
from deployments.routing.mismatch_file import MismatchFile, default_folder
from deployments.routing.model_rollout import ModelRollout
from deployments.routing.served_model import ServedModel, Submit
from deployments.routing.served_models import ServedModels


class Arms:
    """The rollouts of one router.

    Args:
        served: The versions that take requests.
        open_lanes: Opens the lanes to a version, where they open on demand.
        submit: Sends a checked request to a version.

    Attributes:
        rollouts: By key of their model; always the same mapping, which follows the table.
        mirror: Copies requests to shadows.
    """

    def __init__(
        self, served: ServedModels, open_lanes: Callable[[ServedModel], None], submit: Submit
    ) -> None:
        self.rollouts: Mapping[str, ModelRollout] = served.rollouts
        self.mirror = Mirror(submit, served.get, MismatchFile(default_folder()))
        self._served = served
        self._open_lanes = open_lanes

    def choose(self, model: ServedModel, request: InferenceRequest) -> ServedModel:
        """Return the version of a model with a rollout that answers a request.

        It is the one that the request is pinned to, else the one that the rollout chooses.

        Raises:
            UnavailableError: No version takes requests.
        """
        rollout = model.rollout
        if rollout is None:
            return model
        pinned = request.pins.get(model.key, 0) if request.pins else 0
        return self.version(model, pinned or rollout.version_for(request))

    def version(self, model: ServedModel, version: int) -> ServedModel:
        """Return a version of a model with a rollout, or the one that stands for the model.

        Raises:
            UnavailableError: Neither takes requests.
        """
        served = self._served
        chosen = served.get(model.key, version) or served.get(model.key, model.version)
        if chosen is None:
            raise UnavailableError(
                f"model '{model.name}' has a rollout, but neither version {version} nor version"
                f" {model.version} takes requests; load one of them, or end the rollout"
            )
        self._open_lanes(chosen)
        return chosen
