# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""manta.v1.Rollouts: what the HTTP routes of rollouts do, over gRPC."""

from typing import Any, Final

from deployments.contracts.control import RolloutAction
from deployments.data_plane.face import Plane
from deployments.grpc.kserve.unary_call import UnaryAnswer

_PREFIX: Final = b"/manta.v1.Rollouts/"
_NAMES: Final = {
    "GetRollout": RolloutAction.GET,
    "SetRollout": RolloutAction.SET,
    "EndRollout": RolloutAction.END,
    "PromoteRollout": RolloutAction.PROMOTE,
    "PauseRollout": RolloutAction.PAUSE,
    "ResumeRollout": RolloutAction.RESUME,
    "RollBackRollout": RolloutAction.ROLLBACK,
}
ROLLOUT_PATHS: Final = {_PREFIX + name.encode(): action for name, action in _NAMES.items()}


def rollout(plane: Plane, action: RolloutAction, data: bytes | memoryview) -> UnaryAnswer:
    """Answer a call of the service.

    Raises:
        InternalError: The bytes are no such message.
    """
    # Few servers are ever asked, and the descriptors take time to make.
    from deployments.grpc.codec import rollouts as codec  # noqa: PLC0415

    return _answer(plane, action, *codec.parse(data))


async def _answer(
    plane: Plane, action: RolloutAction, name: str, document: dict[str, Any]
) -> bytes:
    from deployments.grpc.codec import rollouts as codec  # noqa: PLC0415 - see `rollout`

    status: dict[str, Any] = await plane.rollouts.rollout(name, action, document)
    return codec.render(status)
