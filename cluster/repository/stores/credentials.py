# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""With which credentials a location is opened: the environment's, or those of a JSON file.

The file ``TRITON_CLOUD_CREDENTIAL_PATH`` groups credentials by scheme and prefix of locations; the
longest prefix wins. Where there is no such file, or it has nothing for a scheme, the cloud's own
variables and chains hold.

Triton: core/src/filesystem/api.cc LoadCredentials, GetLongestMatchingNameIndex;
core/src/filesystem/implementations/{s3,gcs,as}.h *Credential @05295b7
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from cluster.repository.stores.location import Location

FILE_VARIABLE: Final = "TRITON_CLOUD_CREDENTIAL_PATH"
# Which CA file a client trusts, in this order; the cloud's own variable comes before them.
_CA_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Of the file, by scheme; beyond Triton: an endpoint and "anonymous" of S3, a connection string.
_KNOWN_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "s3": frozenset(
        {"secret_key", "key_id", "region", "session_token", "profile", "endpoint", "anonymous"}
    ),
    "as": frozenset({"account_str", "account_key", "auth_type", "client_id", "connection_string"}),
    "gs": frozenset({"path"}),
    "hf": frozenset({"token", "endpoint"}),
    "mlflow": frozenset({"username", "password", "token", "s3_endpoint"}),
}
# What the environment says, by scheme and key.
_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "secret_key": "AWS_SECRET_ACCESS_KEY",
        "key_id": "AWS_ACCESS_KEY_ID",
        "region": "AWS_DEFAULT_REGION",
        "session_token": "AWS_SESSION_TOKEN",
        "profile": "AWS_PROFILE",
    },
    "as": {
        "account_str": "AZURE_STORAGE_ACCOUNT",
        "account_key": "AZURE_STORAGE_KEY",
        "auth_type": "AZURE_STORAGE_AUTH_TYPE",
        "client_id": "AZURE_STORAGE_CLIENT_ID",
        "connection_string": "AZURE_STORAGE_CONNECTION_STRING",
    },
    "gs": {"path": "GOOGLE_APPLICATION_CREDENTIALS", "endpoint": "STORAGE_EMULATOR_HOST"},
    "hf": {"token": "HF_TOKEN", "endpoint": "HF_ENDPOINT"},
    "mlflow": {
        "username": "MLFLOW_TRACKING_USERNAME",
        "password": "MLFLOW_TRACKING_PASSWORD",
        "token": "MLFLOW_TRACKING_TOKEN",
        "s3_endpoint": "MLFLOW_S3_ENDPOINT_URL",
    },
}
# Where they have no chain of their own, nothing is sent.
_WITHOUT_CHAIN: Final = frozenset({"hf", "mlflow"})
_NO_FILE: Final = ("", 0)

# Reads a file: its content, and what changes with it.
ReadFile = Callable[[str], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Credential:
    """What a store is opened with.

    Attributes:
        source: Where it comes from, for messages: ``environment``, or the file and its entry.
        values: By key of the credential file; never shown.
        ca_bundle: File of the CAs to trust; empty for the system's.
    """

    source: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str = ""

    def get(self, key: str) -> str:
        """Return a value; empty when there is none."""
        return self.values.get(key, "")


class Credentials:
    """The credentials of a process.

    Args:
        environ: The environment.
        read_file: Reads the credential file; raises OSError where there is none.
    """

    def __init__(self, environ: Mapping[str, str], read_file: ReadFile) -> None:
        self._environ = environ
        self._read_file = read_file
        self._read: tuple[str, int] = _NO_FILE
        self._entries: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"Credentials(file={self._path!r})"

    @property
    def _path(self) -> str:
        return self._environ.get(FILE_VARIABLE, "")

    def stamp(self) -> int:
        """Return what changes when the credential file does; 0 without one."""
        self._refresh()
        return self._read[1]

    def of(self, location: Location) -> Credential:
        """Return what a location is opened with, from the file as it is now.

        Raises:
            InvalidArgumentError: The credential file is not there, or is none.
        """
        self._refresh()
        scheme = location.scheme
        entries = self._entries.get(scheme, {})
        matching = [prefix for prefix in entries if str(location).startswith(prefix)]
        if matching:
            prefix = max(matching, key=len)
            values = _values(scheme, entries[prefix], f"{self._path}, {scheme} '{prefix}'")
            source = f"entry '{prefix}' of {scheme} in {self._path}"
        else:
            variables = _VARIABLES.get(scheme, {})
            found = {key: self._environ.get(name, "") for key, name in variables.items()}
            values = {key: value for key, value in found.items() if value}
            source = _described(scheme, variables, values)
        return Credential(source, values, self._ca_bundle(scheme))

    def _ca_bundle(self, scheme: str) -> str:
        own = ("AWS_CA_BUNDLE",) if scheme == "s3" else ()
        found = (self._environ.get(name, "") for name in (*own, *_CA_VARIABLES))
        return next((path for path in found if path), "")

    def _refresh(self) -> None:
        if not self._path:
            return
        try:
            text, stamp = self._read_file(self._path)
        except OSError as error:
            raise InvalidArgumentError(
                f"failed to read {FILE_VARIABLE} '{self._path}': {error.strerror or error}"
            ) from None
        if (text, stamp) != self._read:
            self._entries = _parse(text, self._path)
            self._read = (text, stamp)


def _parse(text: str, path: str) -> dict[str, dict[str, Any]]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        # Not the text itself: it holds secrets.
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its bytes"
        raise InvalidArgumentError(
            f"failed to parse {FILE_VARIABLE} '{path}': {where} is not JSON"
        ) from None
    if not isinstance(parsed, dict) or not all(isinstance(each, dict) for each in parsed.values()):
        raise InvalidArgumentError(
            f"{FILE_VARIABLE} '{path}' must be like"
            ' {"s3": {"s3://bucket": {"key_id": "..."}}}'
        )
    return parsed


def _values(scheme: str, entry: object, where: str) -> dict[str, str]:
    if scheme == "gs" and isinstance(entry, str):
        return {"path": entry} if entry else {}
    known = _KNOWN_KEYS.get(scheme, frozenset())
    if not isinstance(entry, dict) or any(not isinstance(v, str) for v in entry.values()):
        expected = "a path" if scheme == "gs" else f"texts by {', '.join(sorted(known))}"
        raise InvalidArgumentError(f"{where}: expected {expected}")
    return {key: value for key, value in entry.items() if value and (key in known or not known)}


def _described(scheme: str, variables: Mapping[str, str], values: Mapping[str, str]) -> str:
    if not values:
        names = ", ".join(name for key, name in variables.items() if "endpoint" not in key)
        none = f"nobody (not set: {names})" if scheme in _WITHOUT_CHAIN else ""
        return none or "the cloud's default chain"
    return f"environment ({', '.join(variables[key] for key in values)})"
