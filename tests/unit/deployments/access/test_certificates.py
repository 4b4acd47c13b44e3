# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from cryptography import x509
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployments.access.certificates import caller_of_certificate
from deployments.access.patterns import Patterns
from deployments.access.policy import CertificateRule, Identity
from deployments.access.refusals import Method, Reason, RefusedError
from tests.support.access import NOW_S, certificate
from tests.support.examples import examples

NAMES = (
    x509.DNSName("Client.Example.Com"),
    x509.UniformResourceIdentifier("spiffe://example.org/ns/prod/sa/web"),
    x509.RFC822Name("alice@example.com"),
)
DER = certificate(*NAMES, name="alice")


def _rule(kind: str, pattern: str, subject: str = "") -> CertificateRule:
    return CertificateRule(kind, Patterns((pattern,)), Identity(subject, "t", frozenset(("g",))))


@pytest.mark.parametrize(
    ("kind", "pattern", "subject"),
    [
        ("dns", "*.example.com", "client.example.com"),
        ("uri", "spiffe://example.org/ns/*/sa/web", "spiffe://example.org/ns/prod/sa/web"),
        ("email", "*@example.com", "alice@example.com"),
        ("cn", "alice", "alice"),
    ],
)
def test_a_name_in_a_certificate_is_the_subject(kind: str, pattern: str, subject: str) -> None:
    caller = caller_of_certificate(DER, (_rule("dns", "other"), _rule(kind, pattern)), NOW_S)
    assert (caller.subject, caller.tenant, caller.groups) == (subject, "t", {"g"})
    assert caller.expires_s == NOW_S + 60


def test_the_first_rule_that_fits_counts() -> None:
    rules = (_rule("dns", "*.example.com", "first"), _rule("uri", "*", "second"))
    assert caller_of_certificate(DER, rules, NOW_S).subject == "first"


@pytest.mark.parametrize(("kind", "pattern"), [("dns", "alice"), ("uri", "alice"), ("cn", "x")])
def test_the_common_name_counts_only_where_a_rule_says_so(kind: str, pattern: str) -> None:
    with pytest.raises(RefusedError) as raised:
        caller_of_certificate(DER, (_rule(kind, pattern),), NOW_S)
    assert raised.value.reason is Reason.UNKNOWN


def test_a_certificate_is_good_until_it_expires_though_the_connection_lives_on() -> None:
    with pytest.raises(RefusedError) as raised:
        caller_of_certificate(DER, (_rule("cn", "*"),), NOW_S + 60)
    assert (raised.value.reason, raised.value.method) == (Reason.EXPIRED, Method.CERTIFICATE)


@pytest.mark.parametrize(("name", "is_sound"), [("a" * 64, True), ("a\x7f", False)])
def test_a_name_that_cannot_be_printed_is_nobodys(name: str, is_sound: bool) -> None:
    der = certificate(name=name)
    if is_sound:
        assert caller_of_certificate(der, (_rule("cn", "*"),), NOW_S).subject == name
        return
    with pytest.raises(RefusedError) as raised:
        caller_of_certificate(der, (_rule("cn", "*"),), NOW_S)
    assert (raised.value.reason, raised.value.method) == (Reason.UNKNOWN, Method.CERTIFICATE)


# Of a serial number that is not positive.
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=examples(100), deadline=None)
@given(at=st.integers(0, len(DER) - 1), byte=st.integers(0, 255))
# Nothing is changed.
@example(at=0, byte=DER[0])
# The common name is a string of bits.
@example(at=DER.rindex(b"\x06\x03\x55\x04\x03") + 5, byte=0x03)
def test_any_bytes_make_a_caller_or_a_refusal(at: int, byte: int) -> None:
    changed = DER[:at] + bytes([byte]) + DER[at + 1 :]
    for der in (changed, DER[:at]):
        try:
            caller_of_certificate(der, (_rule("cn", "*"), _rule("uri", "*")), NOW_S)
        except RefusedError:
            assert der != DER
