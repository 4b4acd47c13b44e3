# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The requests of all models that one ingress has under way. Pure."""


class Places:
    """Counts them; the gates of the models, which take and give them back, look at the limit.

    Args:
        limit: The most.

    Attributes:
        limit: The same.
        count: Those taken.
    """

    __slots__ = ("count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
