# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from tests.unit.deployments.lane.conftest import run

__all__ = ["run"]
