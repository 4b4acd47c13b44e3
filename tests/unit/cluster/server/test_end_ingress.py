# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller gets of its owner costs it nothing until it is called."""

import subprocess
import sys

import pytest

LOOK = """
import pickle, sys
import cluster.controller.controller
pickle.loads(bytes.fromhex(sys.argv[1]))
print([name for name in sys.modules if name == "ray.serve"])
"""


@pytest.mark.slow
def test_a_controller_with_an_owner_has_not_imported_serve():
    import pickle

    from cluster.server.end_ingress import end_with_serve, end_without_serve

    pickled = pickle.dumps((end_with_serve, end_without_serve)).hex()
    done = subprocess.run(
        [sys.executable, "-c", LOOK, pickled], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
