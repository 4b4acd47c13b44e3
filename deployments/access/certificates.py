# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes callers of client certificates that TLS has verified, by the names in them. Pure."""

from collections.abc import Iterator
from typing import Final

from cryptography import x509

from deployments.access.policy import CertificateRule
from deployments.access.refusals import Method, Reason, RefusedError
from deployments.security.caller import Caller

_NAME_LIMIT: Final = 256
_MOST_NAMES: Final = 100
_BAD: Final = (
    # An attribute of a type that its OID does not have, such as a name that is a string of bits.
    TypeError,
    ValueError,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    x509.InvalidVersion,
)


def caller_of_certificate(der: bytes, rules: tuple[CertificateRule, ...], now_s: float) -> Caller:
    """Return whom a certificate stands for, by the first rule that fits one of its names.

    Args:
        der: The certificate.
        rules: The policy's.
        now_s: Wall clock. TLS checks a certificate once, when the connection begins.

    Raises:
        RefusedError: No rule fits, or the certificate has expired.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = list(_names(certificate))[:_MOST_NAMES]
        expires_s = certificate.not_valid_after_utc.timestamp()
    except _BAD:
        raise RefusedError(Reason.MALFORMED, Method.CERTIFICATE) from None
    if now_s >= expires_s:
        raise RefusedError(Reason.EXPIRED, Method.CERTIFICATE)
    for rule in rules:
        for kind, name in names:
            if kind == rule.kind and rule.names.match(name):
                identity = rule.identity
                subject = identity.subject or name
                return Caller(
                    subject, identity.tenant, Method.CERTIFICATE, identity.groups, expires_s
                )
    raise RefusedError(Reason.UNKNOWN, Method.CERTIFICATE)


def _names(certificate: x509.Certificate) -> Iterator[tuple[str, str]]:
    """Return kinds and names, those in the extension first."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        pass
    else:
        names = extension.value
        for kind, values in (
            ("uri", names.get_values_for_type(x509.UniformResourceIdentifier)),
            ("dns", map(str.lower, names.get_values_for_type(x509.DNSName))),
            ("email", map(str.lower, names.get_values_for_type(x509.RFC822Name))),
        ):
            yield from ((kind, value) for value in values if _is_sound(value))
    for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME):
        if isinstance(attribute.value, str) and _is_sound(attribute.value):
            yield "cn", attribute.value


def _is_sound(name: str) -> bool:
    return 0 < len(name) <= _NAME_LIMIT and name.isprintable()
