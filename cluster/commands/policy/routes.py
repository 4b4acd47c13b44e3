# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which roles a route or an RPC needs, for cases that name one."""

import re
from dataclasses import dataclass
from typing import Final

from deployments.access.contracts import ROLE_OF_CATEGORY, Role

_MODEL: Final = r"/v2/models/(?P<model>[^/]+)(?:/versions/[^/]+)?"
_REPOSITORY: Final = r"/v2/repository(?:/[^/]+)?"
_INDEX: Final = (Role.CONTROL, Role.METADATA)
# By path without the query, the first that fits: any of the roles will do.
_PATHS: Final[tuple[tuple[str, tuple[Role, ...]], ...]] = (
    (r"/v2/health/(?:live|ready)", (Role.HEALTH,)),
    (r"/v2/models/stats", (Role.STATISTICS,)),
    (r"/v2(?:/manta/(?:instances|events))?", (Role.METADATA,)),
    (rf"{_MODEL}/ready", (Role.HEALTH,)),
    (rf"{_MODEL}(?:/config)?", (Role.METADATA,)),
    (rf"{_MODEL}/(?:infer|generate|generate_stream)", (Role.INFER,)),
    (rf"{_MODEL}/stats", (Role.STATISTICS,)),
    (rf"{_MODEL}/trace/setting", (Role.SETTINGS,)),
    (r"/v2/(?:trace/setting|logging)", (Role.SETTINGS,)),
    (rf"{_REPOSITORY}/index", _INDEX),
    (rf"{_REPOSITORY}/models/(?P<model>[^/]+)/(?:load|unload)", (Role.CONTROL,)),
    (r"/v2/(?:system|cuda)sharedmemory/.*", (Role.SHARED_MEMORY,)),
    (r"/metrics", (Role.METRICS,)),
    # Which model an OpenAI request is for says its body.
    (r"/v1/models(?:/(?P<model>[^/]+))?", (Role.METADATA,)),
    (r"/v1/(?:audio/|images/|chat/)?[a-z]+|/(?:de)?tokenize", (Role.INFER,)),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a case asks for.

    Attributes:
        roles: Any of these will do.
        model: The model that the route names; empty if it names none.
    """

    roles: tuple[Role, ...]
    model: str = ""


def asked_by(route: str) -> Asked | None:
    """Return what a route asks for; None for one that nobody knows.

    Args:
        route: ``POST /v2/models/simple/infer``, a path alone, the name of an RPC such as
            ``ModelInfer``, or a category of Triton's restricted APIs such as ``model-config``.
    """
    if route in ROLE_OF_CATEGORY:
        return Asked((ROLE_OF_CATEGORY[route],))
    if "/" not in route:
        return _asked_by_rpc(route)
    path = route.rpartition(" ")[2].partition("?")[0]
    for pattern, roles in _PATHS:
        found = re.fullmatch(pattern, path)
        if found is not None:
            return Asked(roles, found.groupdict().get("model") or "")
    return None


def _asked_by_rpc(name: str) -> Asked | None:
    # With NumPy and protobuf, which a path does without.
    from deployments.grpc.kserve.service import PATHS, category_of  # noqa: PLC0415

    for path in PATHS:
        if path.endswith(f"/{name}".encode()):
            role = ROLE_OF_CATEGORY[category_of(path)]
            return Asked(_INDEX if name == "RepositoryIndex" else (role,))
    return None
