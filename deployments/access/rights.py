# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller may do, worked out once and remembered. Pure."""

from typing import Final

from backends.api.errors import PermissionDeniedError, UnauthenticatedError
from deployments.access.contracts import Role
from deployments.access.policy import AccessPolicy, Grant
from deployments.access.refusals import Method, Reason, text_of
from deployments.security.caller import Caller

_MOST_DECISIONS: Final = 1024
# Of longer names nothing is remembered, and only grants for all models match them.
_NAME_LIMIT: Final = 512


class PolicyRights:
    """Implements `Rights`; equal to itself only.

    Args:
        caller: Who it is.
        revision: Of the policy.
        policy: The policy.
        protocol: The port that it asks at.
    """

    __slots__ = ("_by_role", "_decisions", "_everything", "caller", "expires_s", "revision")

    def __init__(self, caller: Caller, revision: int, policy: AccessPolicy, protocol: str) -> None:
        self.caller = caller
        self.revision = revision
        # Beside the caller, as it is looked at for each request.
        self.expires_s = caller.expires_s
        self._by_role: dict[Role, list[Grant]] = {}
        everything = set(policy.public)
        for grant in policy.grants:
            if protocol in grant.protocols and is_granted_to(grant, caller):
                for role in grant.roles:
                    self._by_role.setdefault(role, []).append(grant)
                if grant.models.is_any:
                    everything |= grant.roles
        self._everything = frozenset(everything)
        self._decisions: dict[tuple[Role, str], bool] = {}

    @property
    def has_any(self) -> bool:
        """Whether it may do anything at all."""
        return bool(self._everything or self._by_role)

    def may(self, role: Role, model: str = "") -> bool:
        """As `Rights.may`."""
        if role in self._everything:
            return True
        grants = self._by_role.get(role)
        if grants is None:
            return False
        if not model:
            return True
        known = self._decisions.get((role, model))
        return self._decide(role, model, grants) if known is None else known

    def check(self, role: Role, model: str = "") -> None:
        """As `Rights.check`.

        Raises:
            PermissionDeniedError: It may not.
            UnauthenticatedError: It may not, and has shown no credentials with which it perhaps
                might.
        """
        if self.may(role, model):
            return
        if self.caller.method == Method.ANONYMOUS:
            raise UnauthenticatedError(text_of(Reason.MISSING))
        # The same whether there is such a model: what may be known of it is not known yet.
        raise PermissionDeniedError(
            f"'{self.caller.subject}' may not do this: the role '{role}' is needed"
            f"{' for the model' if model else ''}; ask who keeps the access policy"
        )

    def _decide(self, role: Role, model: str, grants: list[Grant]) -> bool:
        if len(model) > _NAME_LIMIT:
            return False
        decided = any(grant.models.match(model) for grant in grants)
        if len(self._decisions) >= _MOST_DECISIONS:
            self._decisions.clear()
        self._decisions[role, model] = decided
        return decided


def is_granted_to(grant: Grant, caller: Caller) -> bool:
    """Whether a grant is for a caller."""
    is_known = caller.method != Method.ANONYMOUS
    return (
        (is_known and (grant.is_for_authenticated or grant.subjects.match(caller.subject)))
        or not grant.groups.isdisjoint(caller.groups)
        or (bool(caller.tenant) and caller.tenant in grant.tenants)
    )
