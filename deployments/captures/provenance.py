# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has answers name what they were made by: version, digest and rollout arm. Pure.

A request asks for it with the parameter ``manta_provenance``, or the server's options do for all.
What is told are parameters of each response, so it is the same over every protocol.
"""

from typing import Final

from backends.api.request import InferenceRequest, InferenceResponse
from deployments.tracing.passing_sink import Observer

ASKED_BY: Final = "manta_provenance"
VERSION: Final = "manta_model_version"
DIGEST: Final = "manta_model_digest"
ARM: Final = "manta_rollout_arm"


def is_asked(request: InferenceRequest) -> bool:
    """Whether a request asks for it; the parameter is taken out, no model has to know it."""
    parameters = request.parameters
    return bool(parameters) and ASKED_BY in parameters and bool(parameters.pop(ASKED_BY))


class Provenance(Observer):
    """Adds to each response who made it.

    Args:
        version: Version of the model, as text.
        digest: Of what it was loaded from; empty when that is not known, as of an ensemble.
        arm: Of a rollout; empty without one.
    """

    __slots__ = ("_told",)

    def __init__(self, version: str, digest: str, arm: str) -> None:
        self._told: dict[str, str] = {
            key: value for key, value in ((VERSION, version), (DIGEST, digest), (ARM, arm)) if value
        }

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        """Add it to a response."""
        # Cached answers are shared: theirs stays as it is.
        response.parameters = {**response.parameters, **self._told}
