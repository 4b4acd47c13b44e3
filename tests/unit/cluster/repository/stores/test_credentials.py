# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.repository.stores.credentials import Credential, Credentials
from cluster.repository.stores.location import parse_location

FILE = {"TRITON_CLOUD_CREDENTIAL_PATH": "/c.json"}
GROUPED = {
    "gs": {"": "/default.json", "gs://one": "/one.json"},
    "s3": {
        "": {"key_id": "default", "secret_key": "hidden"},
        "s3://a": {"key_id": "short", "secret_key": "hidden"},
        "s3://abc/x": {"key_id": "long", "secret_key": "hidden", "region": "eu-1"},
        "s3://h:9000/b": {"key_id": "local", "secret_key": "hidden"},
    },
    "as": {"as://acc/box": {"account_str": "acc", "auth_type": "managed_identity"}},
}


class File:
    """A credential file in memory."""

    def __init__(self, content: object) -> None:
        self.put(content)

    def put(self, content: object) -> None:
        self.text = content if isinstance(content, str) else json.dumps(content)

    def read(self, path: str) -> tuple[str, int]:
        assert path == "/c.json"
        return self.text, hash(self.text)


def of(location: str, content: object = GROUPED) -> Credential:
    return Credentials(FILE, File(content).read).of(parse_location(location))


@pytest.mark.parametrize(
    ("location", "key"),
    [
        ("s3://zzz", "default"),
        ("s3://abc", "short"),
        ("s3://abc/xyz", "long"),
        ("s3://h:9000/b/m", "local"),
        ("s3://http://h:9000/b/m", "local"),
    ],
)
def test_longest_prefix_of_the_credential_file_wins(location: str, key: str):
    assert of(location).get("key_id") == key


def test_other_schemes_have_their_own_entries():
    assert of("gs://one/m").get("path") == "/one.json"
    assert of("gs://two").get("path") == "/default.json"
    assert of("as://acc/box/m").get("auth_type") == "managed_identity"


def test_the_environment_holds_where_the_file_has_no_entry():
    environ = {"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_KEY": "hidden"}
    credential = Credentials({**FILE, **environ}, File({}).read).of(parse_location("as://a/b"))
    assert (credential.get("account_str"), credential.get("account_key")) == ("acc", "hidden")
    assert credential.source == "environment (AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY)"
    nothing = Credentials({}, File({}).read).of(parse_location("s3://b"))
    assert nothing.source == "the cloud's default chain"


def test_secrets_are_never_shown():
    for shown in (repr(of("s3://abc")), of("s3://abc").source, repr(Credentials(FILE, open))):  # type: ignore[arg-type]
        assert "hidden" not in shown


def test_a_changed_file_is_read_again():
    file = File(GROUPED)
    credentials = Credentials(FILE, file.read)
    at = parse_location("s3://b")
    before = credentials.stamp()
    assert credentials.of(at).get("key_id") == "default"
    file.put({"s3": {"": {"key_id": "new", "secret_key": "x"}}})
    assert credentials.stamp() != before
    assert credentials.of(at).get("key_id") == "new"


@pytest.mark.parametrize("content", ["{hidden", "[1]", {"s3": []}, {"s3": {"": "hidden"}}])
def test_a_file_that_is_none_is_refused_without_its_content(content: object):
    with pytest.raises(InvalidArgumentError) as caught:
        of("s3://b", content)
    assert "/c.json" in caught.value.message
    assert "hidden" not in caught.value.message


def test_a_file_that_is_not_there_is_named():
    def read(path: str) -> tuple[str, int]:
        raise FileNotFoundError(2, "No such file or directory", path)

    with pytest.raises(InvalidArgumentError) as caught:
        Credentials(FILE, read).of(parse_location("s3://b"))
    assert caught.value.message == (
        "failed to read TRITON_CLOUD_CREDENTIAL_PATH '/c.json': No such file or directory"
    )


def test_the_clouds_own_ca_comes_before_the_general_one():
    environ = {"AWS_CA_BUNDLE": "/aws", "SSL_CERT_FILE": "/all"}
    credentials = Credentials(environ, File({}).read)
    assert credentials.of(parse_location("s3://b")).ca_bundle == "/aws"
    assert credentials.of(parse_location("gs://b")).ca_bundle == "/all"


def test_registries_are_asked_with_what_the_environment_has():
    environ = {"HF_TOKEN": "hidden", "MLFLOW_TRACKING_USERNAME": "me", "HF_ENDPOINT": "http://h"}
    credentials = Credentials(environ, File({}).read)
    hub = credentials.of(parse_location("hf://org/net"))
    assert (hub.get("token"), hub.get("endpoint")) == ("hidden", "http://h")
    assert hub.source == "environment (HF_TOKEN, HF_ENDPOINT)"
    assert credentials.of(parse_location("mlflow://h/models/n")).get("username") == "me"
    none = Credentials({}, File({}).read).of(parse_location("hf://org/net"))
    assert none.source == "nobody (not set: HF_TOKEN)"
