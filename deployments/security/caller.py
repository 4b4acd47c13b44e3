# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who asks: what every way to authenticate makes, and every rule is about."""

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose credentials were checked, or nobody in particular.

    Attributes:
        subject: Who it is: the id of an API key, the subject of a token, a name in a certificate, a
            user of this machine. Safe to log; never a secret.
        tenant: Whom its requests count for; empty for none.
        method: How it was authenticated: ``api-key``, ``jwt``, ``certificate``, ``unix-socket`` or
            ``anonymous``.
        groups: What it belongs to, for rules.
        expires_s: Until when its credentials are good, in seconds of the wall clock.
    """

    subject: str
    tenant: str = ""
    method: str = "anonymous"
    groups: frozenset[str] = frozenset()
    expires_s: float = math.inf


ANONYMOUS: Final = Caller("anonymous")
