# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model finds of the interpreter that a Ray worker has used before it."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from deployments.instance.plain_process import have_models_join

# A worker after Ray has set it up, then a model that looks around.
WORKER = """
import asyncio, json, logging, sys
import uvloop

sys.argv = [{script!r}, "--node-ip-address=192.0.2.1"]
sys.path.insert(0, "/opt/ray/_private/workers")
sys.excepthook = lambda *_: None
__file__ = {script!r}
uvloop.install()

from deployments.instance.plain_process import become_plain
from deployments.settings.log_lines import set_up_logging
from deployments.settings.server_settings import LogSettings

become_plain("INFO", title="m/1#0")
logging.getLogger("deployments.instance").info("of the server")
logging.getLogger("deployments.instance").debug("too low")
logging.basicConfig(level="INFO", format="MODEL|%(message)s")
logging.getLogger("a.library").info("of the model")
set_up_logging(LogSettings())
logging.getLogger("deployments.instance").info("as told")
main = sys.modules["__main__"]
print(json.dumps({{
    "argv": sys.argv,
    "on the path": "/opt/ray/_private/workers" in sys.path,
    "hook": sys.excepthook is sys.__excepthook__,
    "loop": type(asyncio.new_event_loop()).__module__.partition(".")[0],
    "main": [hasattr(main, "__file__"), hasattr(main, "uvloop"), main.__name__],
}}))
"""


def run(script: str) -> tuple[dict[str, object], list[str]]:
    code = WORKER.format(script=script)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr.splitlines()


@pytest.fixture(scope="module")
def seen() -> tuple[dict[str, object], list[str]]:
    return run("/opt/ray/_private/workers/default_worker.py")


def test_a_model_finds_an_interpreter_that_nobody_has_set_up(seen):
    assert seen[0] == {
        "argv": [""],
        "on the path": False,
        "hook": True,
        "loop": "asyncio",
        "main": [False, False, "__main__"],
    }


def test_a_model_sets_its_own_logging_up_and_lines_of_the_server_come_once_as_ever(seen):
    mark, first, of_the_model, last = seen[1]
    # For who reads what it prints: Ray's log monitor, or `manta serve`.
    assert mark == ":actor_name:m/1#0"
    assert first.endswith('] "of the server"')
    assert of_the_model == "MODEL|of the model"
    assert last.endswith('] "as told"')


def test_a_process_that_is_no_worker_stays_as_it_is():
    found, lines = run("/usr/bin/program")
    assert found["argv"] == ["/usr/bin/program", "--node-ip-address=192.0.2.1"]
    assert found["loop"] == "uvloop"
    assert "MODEL|of the model" in lines


def test_a_model_that_starts_ray_joins_the_servers_and_cannot_end_it():
    calls = []
    ray = SimpleNamespace(
        init=lambda *args, **options: calls.append((args, options)) or "context",
        shutdown=lambda: calls.append("shutdown"),
    )
    have_models_join(ray)
    assert ray.init("local", num_cpus=2) == "context"
    ray.shutdown()
    assert calls == [(("local",), {"num_cpus": 2, "ignore_reinit_error": True})]


def test_a_model_that_starts_ray_leaves_the_handler_of_sigterm_as_it_is():
    before = signal.getsignal(signal.SIGTERM)
    ray = SimpleNamespace(
        init=lambda **_: signal.signal(signal.SIGTERM, lambda *_: None), shutdown=None
    )
    have_models_join(ray)
    try:
        ray.init()
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, before)


def test_where_ray_is_not_imported_nothing_is_changed():
    have_models_join(None)
