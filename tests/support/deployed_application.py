# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The application on a Serve of its own, deployed again and again with other arguments.

As a program it deploys the arguments that come as a line of JSON, by itself or as a configuration
that Serve builds, and answers with a line.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any, Self

import psutil

from tests.support.readiness_proxy import is_healthy
from tests.support.server import ROOT, titled, until

_NAME = "models"
INGRESS = f"ray::ServeReplica:{_NAME}:Ingress"
_DEPLOYED = "DEPLOYED"


class DeployedApplication:
    """A process with Ray and Serve, on which `deploy` puts the application.

    Args:
        arguments: Those of every deployment; addresses among them.

    Attributes:
        lines: What the process has printed.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.deployed_application"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )

    def deploy(self, **arguments: Any) -> None:
        """Deploy and wait until the new replicas run."""
        self._ask("deploy", arguments)

    def declare(self, **arguments: Any) -> str:
        """Give Serve a configuration; return the application's status once it has got anywhere."""
        return self._ask("declare", arguments)

    def _ask(self, how: str, arguments: dict[str, Any]) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([how, self._arguments | arguments]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith(_DEPLOYED):
                return line.removeprefix(_DEPLOYED).strip()
        raise AssertionError("the application was not deployed:\n" + "".join(self.lines))

    def wait_ready(self, address: str) -> None:
        """Wait until the models are loaded."""
        url = f"http://{address}/v2/health/ready"
        until(lambda: is_healthy(url, 10), "the models are not loaded")

    def ingresses(self) -> list[psutil.Process]:
        """Return the replicas' processes."""
        return titled(psutil.Process(self.process.pid).children(recursive=True), INGRESS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.lines += self.process.stdout.readlines()
        self.process.stdout.close()
        try:
            assert self.process.wait(60) == 0
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(30)


def _deploy(arguments: dict[str, Any]) -> str:
    from ray import serve

    from cluster.app import build

    try:
        serve.run(build(arguments), name=_NAME, route_prefix=None)
    except RuntimeError as error:
        # Its own words do not say why.
        raise RuntimeError(serve.status().applications[_NAME].deployments) from error
    return "RUNNING"


def _declare(arguments: dict[str, Any]) -> str:
    from ray import serve
    from ray.serve.context import _get_global_client
    from ray.serve.schema import ServeApplicationSchema, ServeDeploySchema

    from cluster.server.serve_application import start_serve

    start_serve()
    application = ServeApplicationSchema(
        name=_NAME, import_path="manta.app:build", route_prefix=None, args=arguments
    )
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema(applications=[application]))
    while (status := serve.status().applications[_NAME].status) in {"NOT_STARTED", "DEPLOYING"}:
        time.sleep(0.05)
    return str(status.value)


_HOW = {"deploy": _deploy, "declare": _declare}


def _main() -> None:
    import ray
    from ray import serve

    from cluster.server.ray_environment import RAY_ENVIRONMENT

    os.environ.update(RAY_ENVIRONMENT)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=True)
    for line in sys.stdin:
        how, arguments = json.loads(line)
        print(_DEPLOYED, _HOW[how](arguments), flush=True)  # noqa: T201 - read by the other side
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    _main()
