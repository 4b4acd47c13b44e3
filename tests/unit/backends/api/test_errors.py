# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pickle

import pytest

from backends.api.errors import (
    ERROR_BY_CODE,
    Phase,
    TritonError,
    UnavailableError,
    error_from_code,
)


@pytest.mark.parametrize("cls", ERROR_BY_CODE.values())
@pytest.mark.parametrize("phase", Phase)
def test_an_error_survives_pickling_and_its_description(
    cls: type[TritonError], phase: Phase
) -> None:
    error = cls("what, and what to do", phase)
    for again in (
        pickle.loads(pickle.dumps(error)),
        error_from_code(error.code, error.message, error.phase),
    ):
        assert type(again) is cls
        assert (again.message, again.phase, str(again)) == (error.message, phase, error.message)


def test_an_error_has_no_phase_unless_it_is_given_one() -> None:
    assert TritonError("text").phase is Phase.UNSPECIFIED
    assert error_from_code("Internal", "text").phase is Phase.UNSPECIFIED


def test_when_to_retry_survives_pickling() -> None:
    error = UnavailableError("later", retry_after_s=2.5)
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.retry_after_s) == ("later", 2.5)
    assert UnavailableError("now").retry_after_s == 0
