# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.models import context_of
from tests.support.tensorrt_plans import FULL, add_sub
from tests.support.tensorrt_standin import install


@pytest.fixture
def gpu(monkeypatch):
    return install(monkeypatch)


@pytest.fixture
def model(tmp_path, gpu):
    def context(config=FULL, plan=None, filename="model.plan", **fields):
        made = context_of(tmp_path, config, **({"kind": "GPU"} | fields))
        Path(made.version_dir, filename).write_bytes(add_sub() if plan is None else plan)
        return made

    return context
