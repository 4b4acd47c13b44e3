# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from deployments.grpc.kserve.service import GrpcService
from tests.support.grpc_plane import fake_plane


@pytest.fixture
def plane():
    return fake_plane()


@pytest.fixture
def service(plane):
    return GrpcService(plane)
