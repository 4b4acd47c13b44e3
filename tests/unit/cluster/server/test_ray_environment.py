# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of an embedded Ray are told, and when a fork server begins."""

import importlib.util
import os
import subprocess
import sys

import pytest

from backends import compiled_form
from cluster.fork_server import client_file
from cluster.options.parsing import ServerOptions, from_mapping
from cluster.server import ray_environment
from cluster.server.ray_environment import WITHOUT_DASHBOARD, begun, prepare


def options(**given: object) -> ServerOptions:
    return from_mapping({"model_repository": "/m", **given})


@pytest.mark.parametrize("form", ["0", "0123456789abcdef0123"])
def test_processes_that_start_later_run_the_form_of_the_server(form, monkeypatch):
    monkeypatch.setattr(compiled_form, "choice", lambda: form)
    environment: dict[str, str] = {}
    prepare(environment)
    assert environment["MANTA_COMPILED"] == form


def test_form_that_is_demanded_is_demanded_of_all_processes(monkeypatch):
    monkeypatch.setattr(compiled_form, "choice", lambda: "0123456789abcdef0123")
    environment = {"MANTA_COMPILED": "1"}
    prepare(environment)
    assert environment["MANTA_COMPILED"] == "1"


def test_niceness_that_is_given_stays():
    environment = {"RAY_worker_niceness": "5"}
    prepare(environment)
    assert environment["RAY_worker_niceness"] == "5"
    prepare(given_none := {})
    assert given_none["RAY_worker_niceness"] == "0"


def test_onnx_runtime_sends_nothing_unless_it_is_told_to():
    prepare(environment := {})
    assert environment["ORT_DISABLE_TELEMETRY"] == "1"
    prepare(environment := {"ORT_DISABLE_TELEMETRY": "0"})
    assert environment["ORT_DISABLE_TELEMETRY"] == "0"


def test_what_idle_workers_import_beforehand_is_there():
    prepare(environment := {})
    for module in environment["RAY_preload_python_modules"].split(","):
        assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("dashboard", [True, False])
def test_what_only_a_dashboard_shows_is_not_gathered_without_one(dashboard: bool):
    prepare(environment := {}, dashboard=dashboard)
    assert (WITHOUT_DASHBOARD.items() <= environment.items()) is not dashboard


@pytest.mark.parametrize("given", [{"ray_address": "auto"}, {"no_fork_server": True}])
def test_a_ray_that_is_joined_and_one_that_shall_have_none_have_no_fork_server(given):
    assert begun(options(**given), environment := {}) is None
    assert not environment


class Started:
    """The fork server, which notes in what it begins."""

    def __init__(self, environment: dict[str, str], *, is_forked: bool, preload: str) -> None:
        assert is_forked
        self.preload = preload
        self.environment = dict(environment)


def test_a_fork_server_begins_in_the_environment_of_rays_processes(monkeypatch):
    monkeypatch.setattr(ray_environment, "ForkServer", Started)
    given = {"fork_server_preload": "a,b.c"}
    forks = begun(options(**given), {"RAY_worker_niceness": "5"})
    assert isinstance(forks, Started)
    assert forks.preload == "a,b.c"
    assert forks.environment["RAY_worker_niceness"] == "5"
    assert forks.environment["MANTA_COMPILED"]
    assert "RAY_JOB_ID" not in forks.environment
    assert WITHOUT_DASHBOARD.items() <= forks.environment.items()


def test_without_a_client_processes_are_started_plainly_and_the_log_says_why(
    monkeypatch, tmp_path, caplog
):
    def none(folder):
        raise OSError("the path of Python is too long")

    monkeypatch.setattr(client_file, "made", none)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert begun(options(), {}) is None
    assert "started plainly: there is no fork server: the path of Python is" in caplog.text
    assert not list(tmp_path.iterdir())


def test_what_ray_reads_when_it_is_imported_is_set_before():
    code = (
        "import sys, cluster.server.ray_environment as _;"
        " sys.exit(any(each.partition('.')[0] == 'ray' for each in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, check=False, timeout=60)
    assert done.returncode == 0


IMPORTED_BEFORE = """
import os, sys
from cluster.fork_server import imported
from cluster.options.parsing import from_mapping
from cluster.server import ray_environment

def forked(*_, **__):
    before = set(sys.modules)
    import cluster.server.ray_cluster, cluster.server.server
    assert set(sys.modules) == before
    assert "ray.serve" in before
    assert not imported.impediment()

ray_environment.ForkServer = forked
ray_environment.begun(from_mapping({"model_repository": "/m"}), os.environ)
"""


def test_what_a_server_goes_on_with_is_imported_before_it_forks_which_it_may_then():
    """What both have imported by themselves, they would keep twice."""
    subprocess.run([sys.executable, "-c", IMPORTED_BEFORE], check=True, timeout=60)
