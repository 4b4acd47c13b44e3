# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of Azure, beside what its own client would ask."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.core.pipeline.transport import AsyncHttpTransport
from azure.storage.blob.aio import BlobServiceClient
from fsspec.asyn import sync

from cluster.repository.stores.azure import _AzureClient


class Recording(AsyncHttpTransport):  # type: ignore[type-arg]
    """Sends nothing."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []

    async def send(self, request: Any, **_: object) -> Any:
        assert request.headers["Authorization"].startswith("SharedKey a:")
        self.asked.append(parse_qs(urlsplit(request.url).query, strict_parsing=True))
        raise ServiceRequestError("nobody is asked")

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("prefix", ["", "m/", "m-a/é x+y%20#&=?.txt"])
@pytest.mark.parametrize("token", ["", "2!88!x=/+"])
def test_a_listing_is_asked_for_as_the_clouds_client_asks(prefix: str, token: str) -> None:
    transport = Recording()
    key = {"account_name": "a", "account_key": "eA=="}
    service = BlobServiceClient("http://h/a", credential=key, transport=transport, retry_total=0)
    client = _AzureClient(service, None, "container")
    with pytest.raises(ServiceRequestError):
        client.list_page(prefix, token)

    async def list_with_the_clouds() -> None:
        container = service.get_container_client("container")
        found = container.list_blobs(name_starts_with=prefix or None, results_per_page=5000)
        await anext(found.by_page(continuation_token=token or None))

    with pytest.raises(ServiceRequestError):
        sync(client._loop, list_with_the_clouds)
    client.close()
    ours, theirs = transport.asked
    assert ours == theirs
