# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What comes with models in a store, in a real server: agents, environment, a long download."""

import io
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.repository.stores.contracts import Store
from tests.support.object_stores import Emulator
from tests.support.own_agent import install_own_agent, told
from tests.support.server import RunningServer
from tests.support.toxic_proxy import Seen, Toxic

PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: 1 }
output { name: "OUT" data_type: TYPE_FP32 dims: 1 }
"""
NOTED = (
    'model_repository_agents { agents { name: "noting" parameters { key: "log" value: "%s" } } }'
)
ENVIRONMENT = """
parameters { key: "EXECUTION_ENV_PATH"
             value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
"""
CODE = b"""
import numpy as np
import triton_python_backend_utils as pb_utils
try:
    from packed_zq import VALUE
except ImportError:
    VALUE = 0

class TritonPythonModel:
    def execute(self, requests):
        answer = pb_utils.Tensor("OUT", np.array([VALUE], np.float32))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""
# Ten parts, of which eight are read at a time.
BALLAST = bytes(40 << 20)
# Downloads tell how far they are once in a second.
REPORT_S = 1.0


def archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"{PACKAGES}/packed_zq.py")
        text = b"VALUE = 42"
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return content.getvalue()


def ask(client: triton_http.InferenceServerClient, model: str) -> float:
    given = triton_http.InferInput("IN", [1], "FP32")
    given.set_data_from_numpy(np.zeros(1, np.float32))
    return float(client.infer(model, [given]).as_numpy("OUT")[0])


def in_two_rounds(shown: Event) -> Callable[[Seen], Toxic | None]:
    """Hold the ballast's first parts until a report is due, and the others until it was seen."""
    numbers = count()

    def wait() -> None:
        assert shown.wait(60)

    def choose(seen: Seen) -> Toxic | None:
        if "/large/1/ballast" not in seen.path:
            return None
        if next(numbers) < 8:
            return Toxic(latency_s=REPORT_S)
        return Toxic(before=wait)

    return choose


def load_model(server: RunningServer, model: str) -> None:
    """Load with a client of this thread's own."""
    with triton_http.InferenceServerClient(server.http, network_timeout=120.0) as client:
        client.load_model(model)


def reasons(client: triton_http.InferenceServerClient, model: str) -> list[str]:
    rows = client.get_model_repository_index()
    return [row.get("reason", "") for row in rows if row["name"] == model]


@pytest.mark.parametrize("emulator", ["s3"], indirect=True)
def test_agents_environment_and_progress_of_models_in_stores(
    emulator: Emulator, directory: str, store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    store.write("noted/1/model.py", CODE)
    store.write("noted/config.pbtxt", (CONFIG + NOTED % log).encode())
    store.write("packed/1/model.py", CODE)
    store.write("packed/config.pbtxt", (CONFIG + ENVIRONMENT).encode())
    store.write("packed/env.tar.gz", archive())
    store.write("large/1/model.py", CODE)
    store.write("large/1/ballast", BALLAST)
    store.write("large/config.pbtxt", CONFIG.encode())
    server = RunningServer(
        emulator.location(directory),  # type: ignore[arg-type]
        "--model-control-mode=explicit",
        f"--model-cache-directory={tmp_path / 'cache'}",
        environment=install_own_agent(tmp_path / "packages") | dict(emulator.environ),
    )
    with (
        triton_http.InferenceServerClient(server.http, network_timeout=120.0) as client,
        ThreadPoolExecutor() as pool,
    ):
        client.load_model("noted")
        assert told(client, log, "LOAD", "LOAD_COMPLETE")
        client.unload_model("noted")
        assert told(client, log, "LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE")
        # Its files are in the node's cache; its agents hear of the load all the same.
        log.unlink()
        client.load_model("noted")
        client.unload_model("noted")
        assert told(client, log, "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE")
        log.unlink()
        store.write("noted/1/model.py", b"raise ValueError('broken')")
        with pytest.raises(InferenceServerException):
            client.load_model("noted")
        assert told(client, log, "LOAD", "LOAD_FAIL")

        client.load_model("packed")
        assert ask(client, "packed") == 42

        shown = Event()
        emulator.proxy.choose = in_two_rounds(shown)
        load = pool.submit(load_model, server, "large")
        while not load.done() and not shown.is_set():
            for text in reasons(client, "large"):
                if text.startswith("downloading: ") and text.endswith(" of 40 MiB"):
                    shown.set()
        load.result()
        assert shown.is_set()
        assert reasons(client, "large") == [""]
    assert server.terminate() == 0
