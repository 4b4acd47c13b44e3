# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stores that repeat in their refusals what they were shown."""

import base64
from collections.abc import Iterator

import pytest

from backends.api.errors import TritonError
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.retry import RetryPolicy
from tests.attack.echoing_peers import EchoingPeers

QUICK = RetryPolicy(attempts=1, base_s=0.001, cap_s=0.01)
MLFLOW = {"MLFLOW_TRACKING_USERNAME": "who", "MLFLOW_TRACKING_PASSWORD": "hush-hush"}
S3 = {"AWS_ACCESS_KEY_ID": "who", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_DEFAULT_REGION": "x"}


@pytest.fixture
def peers() -> Iterator[EchoingPeers]:
    running = EchoingPeers()
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("location", "environ"),
    [
        ("hf://org/net", {"HF_TOKEN": "hush-hush", "HF_ENDPOINT": "http://{}"}),
        ("mlflow://{}/models/net", MLFLOW),
        ("mlflow://{}/models/net", {"MLFLOW_TRACKING_TOKEN": "hush-hush"}),
        ("s3://http://{}/bucket/models", S3),
    ],
)
def test_a_refusal_that_repeats_credentials_is_told_without_them(
    peers: EchoingPeers, location: str, environ: dict[str, str]
) -> None:
    told = {name: value.format(peers.http) for name, value in environ.items()}
    store = open_store(location.format(peers.http), told, QUICK)
    try:
        with pytest.raises(TritonError, match=r"not for you|AccessDenied|403") as refusal:
            list(store.find(""))
    finally:
        store.close()
    assert "hush-hush" not in str(refusal.value)
    assert base64.b64encode(b"who:hush-hush").decode() not in str(refusal.value)
