# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is imported before a fork leaves no thread and draws nothing, or it is said."""

import os
import socket
import subprocess
import sys

import pytest
import ray.actor

from cluster.fork_server import imported

pytestmark = pytest.mark.slow

THREAD = """
import threading
threading.Thread(target=threading.Event().wait, name="another", daemon=True).start()
"""
DRAWN = """
import ray
ray.ObjectRef.from_random()
"""
DECORATED = """
import ray
@ray.remote
class Actor: ...
"""
DECORATED_MEANWHILE = """
with imported.identifiers_from_kernel():
    import ray
    @ray.remote
    class Actor: ...
"""
ALL = """
with imported.identifiers_from_kernel():
    assert imported.import_all((*imported.RAY, *imported.WORKERS)) == []
"""


@pytest.mark.parametrize(
    ("before", "impediment"),
    [
        (THREAD, "threads run: MainThread, another"),
        (DRAWN, "forked processes would draw the same identifiers"),
        (DECORATED, "forked processes would draw the same identifiers"),
        (DECORATED_MEANWHILE, ""),
        (ALL, ""),
    ],
    ids=["thread", "drawn", "decorated", "decorated meanwhile", "all"],
)
def test_what_must_not_be_before_a_fork_is_said(before: str, impediment: str) -> None:
    code = f"from cluster.fork_server import imported\n{before}\nprint(imported.impediment())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.stdout, done.returncode) == (f"{impediment}\n", 0), done.stderr


# As the fork server is started, with a module that begins a thread.
REFUSING = """
import socket, sys, threading
from cluster.fork_server import imported, serving
imported.WORKERS = ()
threading.Thread(target=threading.Event().wait, name="another", daemon=True).start()
serving.main(sys.argv[1], sys.argv[2])
"""


def test_a_fork_server_that_must_not_fork_says_so_and_ends() -> None:
    ends = socket.socketpair()
    with ends[0], ends[1]:
        done = subprocess.run(
            [sys.executable, "-c", REFUSING, str(ends[0].fileno()), str(os.getpid())],
            pass_fds=[ends[0].fileno()],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert done.returncode == 1
    assert "threads run: MainThread, another: all processes are started plainly" in done.stderr


def test_a_module_that_cannot_be_imported_is_named_and_others_are_imported() -> None:
    (failed,) = imported.import_all(("json", "no_such_module", "ray.actor"))
    assert failed == "no_such_module: No module named 'no_such_module'"


def test_identifiers_are_ray_s_own_again_afterwards() -> None:
    def fail() -> None:
        with imported.identifiers_from_kernel():
            assert ray.actor.ActorClassID is not own
            drawn = {ray.actor.ActorClassID.from_random() for _ in range(10)}
            assert len(drawn) == 10
            assert {type(each) for each in drawn} == {own}
            raise RuntimeError("meanwhile")

    own = ray.actor.ActorClassID
    with pytest.raises(RuntimeError, match="meanwhile"):
        fail()
    assert ray.actor.ActorClassID is own


READS_AN_OBJECT = """
import sys
from cluster.fork_server import imported
imported.import_all(imported.RAY)
import starlette.datastructures
from ray.util import serialization_addons
before = set(sys.modules)
class Context:
    def __getattr__(self, name):
        return lambda *_, **__: None
serialization_addons.apply(Context())
assert set(sys.modules) == before, set(sys.modules) - before
"""


def test_a_worker_imports_nothing_with_the_first_object_that_it_reads() -> None:
    """It would be 6 MB of its own. Starlette is imported with Serve."""
    subprocess.run([sys.executable, "-c", READS_AN_OBJECT], check=True)
