# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The forged credentials of the attack suite, at the guard itself."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backends.api.errors import UnauthenticatedError
from deployments.access.contracts import Peer, Role
from deployments.access.guard import PolicyGuard
from deployments.access.policy_files import load_policy
from tests.attack.families.tokens import bad_headers
from tests.attack.forged_tokens import Signed, _claims, _sign, write_policy

HTTP = Peer("http")


@pytest.fixture(scope="module")
def signed() -> Iterator[Signed]:
    with TemporaryDirectory() as folder:
        yield write_policy(Path(folder))


def headers_of(lines: tuple[bytes, ...]) -> list[tuple[bytes, bytes]]:
    parts = [line.partition(b":") for line in lines]
    return [(name, value.strip()) for name, _, value in parts]


def is_let_in(guard: PolicyGuard, lines: tuple[bytes, ...]) -> bool:
    try:
        rights = guard.identify(headers_of(lines), HTTP)
    except UnauthenticatedError:
        return False
    # Nobody's: what shows no credentials is anonymous, and nothing is granted to that.
    return (
        rights.may(Role.METADATA, "add_sub") or rights.may(Role.INFER) or rights.may(Role.CONTROL)
    )


def test_who_is_meant_is_let_in(signed: Signed) -> None:
    guard = PolicyGuard(load_policy(str(signed.policy)), time.time)
    for header in ((b"x-api-key", signed.key), (b"authorization", f"Bearer {signed.token}")):
        assert guard.identify([(header[0], header[1].encode())], HTTP).caller.subject == "who"


def test_no_forged_credential_is_let_in(signed: Signed) -> None:
    guard = PolicyGuard(load_policy(str(signed.policy)), time.time)
    tried = dict(bad_headers(signed))
    assert len(tried) > 120
    for what, lines in tried.items():
        assert not is_let_in(guard, lines), what


def test_what_is_signed_by_hand_is_good_if_its_claims_are(signed: Signed) -> None:
    guard = PolicyGuard(load_policy(str(signed.policy)), time.time)
    token = _sign(signed, _claims())
    assert is_let_in(guard, (b"authorization: Bearer " + token.encode(),))
