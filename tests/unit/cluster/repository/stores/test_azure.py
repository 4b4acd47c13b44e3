# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""With what an Azure container is opened; nothing is asked of one."""

import json
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.repository.stores.opening import open_store

LOCATION = "as://account/container/models"


@pytest.mark.parametrize("is_from_file", [False, True])
def test_an_unknown_authentication_type_is_refused_with_those_there_are(
    tmp_path: Path, is_from_file: bool
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"as": {"": {"auth_type": "invalid_type"}}}))
    name, value = "AZURE_STORAGE_AUTH_TYPE", "invalid_type"
    if is_from_file:
        name, value = "TRITON_CLOUD_CREDENTIAL_PATH", str(file)
    with pytest.raises(InvalidArgumentError) as caught:
        open_store(LOCATION, {name: value}).look("m/config.pbtxt")
    message = caught.value.message
    assert message.startswith("Unable to create Azure filesystem client. Check account credentials")
    assert "'invalid_type'" in message
    assert "expected one of default, key, managed_identity" in message
    assert (str(file) if is_from_file else name) in message
