# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the view of one caller asks for its rights."""

from collections.abc import Callable, Iterable
from typing import Final

from backends.api.errors import PermissionDeniedError, TritonError, UnauthenticatedError
from backends.api.model_identifier import name_of
from deployments.access.contracts import Rights, Role

# A model that only a grant of all models covers: what needs it changes more than one of them.
EVERY_MODEL: Final = "*"

_ANONYMOUS: Final = "anonymous"

# Takes what was asked, the model and the outcome.
NoteAsked = Callable[[str, str, str], None]


def note_nothing(what: str, model: str, outcome: str) -> None:
    """Keep no audit log."""
    del what, model, outcome


class Checks:
    """The questions of one caller's view.

    Args:
        rights: What the caller may do.
        note: Writes the audit log.

    Attributes:
        note: The same.
    """

    __slots__ = ("_rights", "note")

    def __init__(self, rights: Rights, note: NoteAsked) -> None:
        self._rights = rights
        self.note = note

    def may(self, role: Role, name: str) -> bool:
        """Whether the role is granted for a model, named by name or key; empty: for any."""
        return self._rights.may(role, _model_of(name))

    def require(self, role: Role, name: str, what: str, *, is_noted: bool = False) -> None:
        """Do nothing if `may`.

        Args:
            role: What is needed.
            name: The model, by name or key; empty for any.
            what: What is asked, for the audit log.
            is_noted: Whether that it was allowed is noted, too.

        Raises:
            PermissionDeniedError: It may not.
            UnauthenticatedError: Nobody in particular may not, but somebody else perhaps.
        """
        model = _model_of(name)
        try:
            self._rights.check(role, model)
        except (PermissionDeniedError, UnauthenticatedError) as error:
            refused = refusal(self._rights, error)
            self.note(what, model, outcome_of(refused))
            raise refused from None
        if is_noted:
            self.note(what, model, "allowed")


def require_any(rights: Rights, roles: Iterable[Role], names: Iterable[str]) -> None:
    """Do nothing if any of the roles is granted for any of the models.

    Args:
        rights: Of the caller.
        roles: At least one.
        names: What the model may be called, by name or key; empty where none is asked for.

    Raises:
        PermissionDeniedError: It is not; the text is that of the first role and name.
        UnauthenticatedError: It is not, to nobody in particular.
    """
    models = [_model_of(name) for name in names] or [""]
    first: TritonError | None = None
    for role in roles:
        for model in models:
            try:
                rights.check(role, model)
            except (PermissionDeniedError, UnauthenticatedError) as error:
                first = first or error
            else:
                return
    if first is not None:
        raise refusal(rights, first)


def refusal(rights: Rights, error: TritonError) -> TritonError:
    """Return what a refused caller is told: who showed no credentials is asked for some."""
    if rights.caller.method == _ANONYMOUS and isinstance(error, PermissionDeniedError):
        return UnauthenticatedError(error.message)
    return error


def outcome_of(error: TritonError) -> str:
    """Return what the audit log calls a refusal."""
    return "denied" if isinstance(error, PermissionDeniedError) else "unauthenticated"


def _model_of(name: str) -> str:
    # A key that ends in a slash is no model's; its empty name would stand for any model.
    return (name_of(name) or name) if name else ""
