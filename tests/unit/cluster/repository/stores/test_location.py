# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnsupportedError,
)
from cluster.repository.stores.location import Location, parse_location


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket", Location("s3", "", "bucket")),
        ("s3://bucket/a/b/", Location("s3", "a/b", "bucket")),
        ("s3:////bucket///a//b", Location("s3", "a/b", "bucket")),
        ("s3://h:9000/bucket/a", Location("s3", "a", "bucket", "http://h:9000")),
        ("s3://http://h:9000/bucket", Location("s3", "", "bucket", "http://h:9000")),
        ("s3://https://h.b:1/bucket/a", Location("s3", "a", "bucket", "https://h.b:1")),
        ("s3://https://h.b/bucket/a", Location("s3", "a", "bucket", "https://h.b")),
        ("s3://h:9000/bucket/my models+", Location("s3", "my models+", "bucket", "http://h:9000")),
        ("gs://bucket/a/b", Location("gs", "a/b", "bucket")),
        ("gs://bucket", Location("gs", "", "bucket")),
        ("as://acc/box/a/b", Location("as", "a/b", "box", account="acc")),
        ("as://acc.blob.core.windows.net/box", Location("as", "", "box", account="acc")),
        ("as://acc/box/a?sig=x", Location("as", "a", "box", account="acc")),
        ("hf://org/net", Location("hf", "", "org/net")),
        ("hf://org/net@v1/m/", Location("hf", "m", "org/net@v1")),
        ("hf://org/net@refs%2Fpr%2F1", Location("hf", "", "org/net@refs%2Fpr%2F1")),
        ("mlflow://h:5/models/n", Location("mlflow", "", "models/n", "http://h:5")),
        ("mlflow://http://h:5/models/n/", Location("mlflow", "", "models/n", "http://h:5")),
        ("mlflow://https://h/models/n/3", Location("mlflow", "", "models/n/3", "https://h")),
        ("mlflow://h/models/n/3/n", Location("mlflow", "n", "models/n/3", "http://h")),
        ("mlflow://h/models/n/n", Location("mlflow", "n", "models/n", "http://h")),
        ("mlflow://h/models/7/7", Location("mlflow", "7", "models/7", "http://h")),
        (
            "mlflow://h/models/a b@best/a b",
            Location("mlflow", "a b", "models/a b@best", "http://h"),
        ),
        ("models", Location("file", "models")),
        ("/a b/c", Location("file", "/a b/c")),
        ("file:///a/b", Location("file", "/a/b")),
        ("memory://a/b", Location("memory", "memory://a/b", url="memory://a/b")),
    ],
)
def test_locations_are_read_as_triton_does(text: str, expected: Location):
    assert parse_location(text) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("s3://", InvalidArgumentError, "Invalid bucket name: ''"),
        ("s3:////", InvalidArgumentError, "Invalid bucket name: '//'"),
        ("s3://h:9000", InternalError, "No bucket name found in path: s3://h:9000"),
        ("gs://", InternalError, "No bucket name found in path: gs://"),
        ("gs:///a", InternalError, "No bucket name found in path: gs:///a"),
        ("as://acc", InternalError, "Invalid azure storage path: as://acc"),
        ("as://acc?sig=secret", InternalError, "Invalid azure storage path: as://acc"),
    ],
)
def test_locations_without_a_bucket_have_tritons_text(
    text: str, error: type[TritonError], message: str
):
    with pytest.raises(error) as caught:
        parse_location(text)
    assert caught.value.message == message


def test_an_unknown_scheme_is_unsupported():
    with pytest.raises(UnsupportedError, match="scheme 'nope' is not supported"):
        parse_location("nope://a")


def test_an_endpoint_holds_no_password():
    with pytest.raises(InvalidArgumentError) as caught:
        parse_location("s3://https://key:secret@host/bucket")
    assert "secret" not in caught.value.message.lower().replace("aws_secret_access_key", "")


@pytest.mark.parametrize("scheme", ["s3", "gs", "as", "hf"])
def test_a_password_before_a_bucket_is_refused_without_repeating_it(scheme: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must not hold user and password") as refusal:
        parse_location(f"{scheme}://who:hush@127.0.0.1:9000/bucket")
    assert "hush" not in str(refusal.value)


def test_passwords_of_other_protocols_are_not_shown():
    location = parse_location("sftp://user:secret@host:22/models?token=x").below("m")
    assert str(location) == "sftp://host:22/models/m"
    assert "secret" not in repr(location)


def test_a_password_of_an_unknown_scheme_is_not_repeated() -> None:
    with pytest.raises(UnsupportedError, match=r"'swift://host/models'.*'swift'") as refusal:
        parse_location("swift://bob:hunter2@host/models?key=hunter3")
    assert "hunter" not in str(refusal.value)


_NAME = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=12)
_PART = st.text(st.characters(exclude_characters="/?", exclude_categories=("Cs",)), min_size=1)
_PATH = st.lists(_PART, max_size=4).map("/".join)


@given(
    st.sampled_from(["s3://", "s3://h:1/", "s3://https://h.x:1/", "gs://", "as://account/"]),
    _NAME,
    _PATH,
)
def test_what_a_location_is_shown_as_is_read_as_the_same(begin: str, bucket: str, path: str):
    location = parse_location(f"{begin}{bucket}/{path}")
    assert parse_location(str(location)) == location
    assert (location.bucket, location.path) == (bucket, path)
    assert location.below("m/1").path == (f"{path}/m/1" if path else "m/1")


@given(
    st.sampled_from(["hf://owner/", "mlflow://h:1/models/", "mlflow://https://h.x:1/models/"]),
    _NAME,
    st.sampled_from(["", "@v1"]),
    _PATH,
)
def test_so_is_a_location_of_a_registry(begin: str, name: str, revision: str, path: str):
    # The directory of a model that is called like a number goes before its version of that number.
    assume(not (name == path and name.isdecimal()))
    location = parse_location(f"{begin}{name}{revision}/{path}")
    assert parse_location(str(location)) == location
    model = location.below("net")
    assert parse_location(str(model)) == model


_ACCEPTED = {"/models", "s3://h:1/bucket/path", "gs://bucket", "as://account/container/a"}


@given(st.text())
@example("/models")
@example("s3://h:1/bucket/path")
@example("gs://bucket")
@example("as://account/container/a")
def test_any_text_is_a_location_or_refused(text: str):
    try:
        location = parse_location(text)
    except TritonError:
        assert text not in _ACCEPTED
        return
    assert location.is_local or location.bucket or location.url


@pytest.mark.parametrize("text", ["hf://", "hf://net", "hf://datasets/org/net", "hf://org/net@"])
def test_locations_of_the_hub_name_owner_and_repository(text: str):
    with pytest.raises(InvalidArgumentError, match="must be like hf://org/name or hf://org/name@"):
        parse_location(text)


@pytest.mark.parametrize(
    "text", ["mlflow://", "mlflow://h:5", "mlflow://h/n", "mlflow://me:secret@h:5/models/n"]
)
def test_locations_of_mlflow_name_a_model_and_no_password(text: str):
    with pytest.raises(InvalidArgumentError, match="must be like mlflow://host:port/m") as caught:
        parse_location(text)
    assert "secret" not in caught.value.message
