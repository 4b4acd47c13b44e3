# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model that misbehaves harms only itself: one server, and a model that must not notice.

The models run the code they are sent, or the code they find in a file when they start and end.
"""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.expendable_server import ExpendableServer
from tests.support.model_folders import write_folder
from tests.support.obedient_models import CONFIG, MODELS, OBEDIENT
from tests.support.server import RunningServer

DIES = {
    "exit code": "os._exit(7)",
    "segfault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
}
# A model for each: from the third death in a row a process comes back later and later.
DYING = {how: f"dies_{at}" for at, how in enumerate((*DIES, "twice"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models find and leave files; the repository lies in it."""
    folder = tmp_path_factory.mktemp("misbehaving")
    for name in (*MODELS, *DYING.values()):
        decoupled = "model_transaction_policy { decoupled: true }" if name == "streams" else ""
        write_folder(folder / "models", name, CONFIG.format(name=name) + decoupled, OBEDIENT)
    write_add_sub(folder / "models", "healthy")
    return folder


@pytest.fixture(scope="module", autouse=True)
def models(expendable_server: ExpendableServer, folder: Path) -> Iterator[None]:
    load = [
        name for name in (*MODELS, *DYING.values(), "healthy") if name not in {"loops", "starts"}
    ]
    with expendable_server.bringing(folder / "models", load):
        yield


@pytest.fixture
def running(expendable: RunningServer) -> RunningServer:
    return expendable


@pytest.fixture
def http(running: RunningServer) -> Iterator[triton_http.InferenceServerClient]:
    with triton_http.InferenceServerClient(running.http, network_timeout=120) as client:
        yield client


@pytest.fixture(autouse=True)
def healthy_model_does_not_notice(running: RunningServer) -> Iterator[None]:
    with triton_http.InferenceServerClient(running.http) as client:
        (before,) = _pids(running, "healthy")
        yield
        check_add_sub(client.infer("healthy", add_sub_inputs(triton_http)))
        assert _pids(running, "healthy") == {before}
        (row,) = client.get_inference_statistics("healthy")["model_stats"]
        assert "fail" not in row["inference_stats"] or not row["inference_stats"]["fail"]["count"]


def _pids(server: RunningServer, model: str) -> set[int]:
    return {process.pid for process in server.processes(f"ray::{model}/1")}


def _code(module: object, code: str) -> list[object]:
    tensor = module.InferInput("CODE", [1], "BYTES")  # type: ignore[attr-defined]
    tensor.set_data_from_numpy(np.array([code.encode()], dtype=np.object_))
    return [tensor]


def _obey(client: triton_http.InferenceServerClient, code: str, model: str = "obeys") -> str:
    answer: bytes = client.infer(model, _code(triton_http, code)).as_numpy("SAYS")[0]
    return answer.decode()


def _error(client: triton_http.InferenceServerClient, code: str, model: str = "obeys") -> str:
    with pytest.raises(InferenceServerException) as caught:
        _obey(client, code, model)
    return str(caught.value)


def _state(client: triton_http.InferenceServerClient, model: str) -> tuple[str, str]:
    (row,) = [row for row in client.get_model_repository_index() if row["name"] == model]
    return row["state"], row.get("reason", "")


def _wait_until_back(client: triton_http.InferenceServerClient, model: str = "obeys") -> None:
    pause = threading.Event()
    said = ""
    for _ in range(6000):
        # It may be called ready for a moment before its death is known.
        try:
            _obey(client, "", model)
        except InferenceServerException as error:
            said = str(error)
            assert f"'{model}'" in said
            pause.wait(0.01)
        else:
            return
    raise AssertionError(f"{model} did not come back: {said}, {_state(client, model)}")


def _wait_until_gone(server: RunningServer, model: str) -> None:
    _, alive = psutil.wait_procs(server.processes(f"ray::{model}/1"), timeout=60)
    assert not alive


def _wait_for(path: Path) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if path.exists():
            return
        pause.wait(0.01)
    raise AssertionError(f"{path.name} did not come")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('no such day')", "ValueError: no such day"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        # Its memory is bounded before it leaks all there is.
        (
            "used = int(pathlib.Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
            "resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))\n"
            "kept = []\n"
            "try:\n    while True: kept.append(bytearray(16 << 20))\n"
            "finally:\n    kept.clear()\n"
            "    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)\n",
            "MemoryError",
        ),
    ],
)
def test_execute_that_fails_is_one_error_and_the_process_goes_on(
    running: RunningServer, http: triton_http.InferenceServerClient, code: str, message: str
) -> None:
    before = _pids(running, "obeys")
    assert message in _error(http, code)
    assert _obey(http, "said = 1 + 1") == "2"
    assert _pids(running, "obeys") == before


def test_flood_of_output_holds_nobody_up(http: triton_http.InferenceServerClient) -> None:
    code = "for _ in range(20_000): print('x' * 100); print('y' * 10, file=sys.stderr)"
    assert _obey(http, code) == "done"


@pytest.mark.parametrize("how", DIES)
def test_process_that_dies_in_execute_is_one_error_and_comes_back(
    running: RunningServer, http: triton_http.InferenceServerClient, how: str
) -> None:
    model = DYING[how]
    before = _pids(running, model)
    error = _error(http, DIES[how], model)
    assert f"model '{model}'" in error
    # Nobody can tell who killed a process, or why it has exited.
    signal = {"segfault": "SIGSEGV", "abort": "SIGABRT"}.get(how, "")
    assert ("[500]" in error) == bool(signal), error
    assert ("send the request again" in error) == (not signal)
    if signal:
        assert re.search(rf"was ended by {signal} in model\.py:\d+ while it executed", error), error
    _wait_until_back(http, model)
    assert _obey(http, "said = 1 + 1", model) == "2"
    assert not _pids(running, model) & before


def test_request_that_crashes_two_processes_is_internal_over_grpc(
    running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    model = DYING["twice"]
    with (
        triton_grpc.InferenceServerClient(running.grpc) as client,
        pytest.raises(InferenceServerException) as caught,
    ):
        client.infer(model, _code(triton_grpc, DIES["segfault"]), client_timeout=120)
    assert caught.value.status() == "StatusCode.INTERNAL"
    assert f"instance '{model}/1#0' of model '{model}' was ended by SIGSEGV" in str(caught.value)
    _wait_until_back(http, model)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ValueError('not today')", "ValueError: not today"),
        ("sys.exit(3)", "SystemExit: 3"),
        (DIES["exit code"], "died loading"),
        (DIES["segfault"], "died loading"),
    ],
)
def test_initialize_that_fails_is_the_reason_of_the_model(
    folder: Path, http: triton_http.InferenceServerClient, code: str, reason: str
) -> None:
    (folder / "starts.at_start").write_text(code)
    with pytest.raises(InferenceServerException) as caught:
        http.load_model("starts")
    assert reason in str(caught.value)
    state, said = _state(http, "starts")
    assert state == "UNAVAILABLE"
    assert reason in said


@pytest.mark.parametrize(
    "code", ["raise ValueError('never')", "sys.exit(3)", DIES["exit code"], DIES["segfault"]]
)
def test_finalize_that_fails_does_not_keep_the_model(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient, code: str
) -> None:
    (folder / "starts.at_start").unlink(missing_ok=True)
    (folder / "starts.at_end").write_text(code)
    http.load_model("starts")
    assert _obey(http, "", "starts") == "done"
    http.unload_model("starts")
    assert _state(http, "starts") == ("UNAVAILABLE", "unloaded")
    _wait_until_gone(running, "starts")


@pytest.mark.long
def test_instance_that_dies_at_every_start_is_unavailable_with_a_reason_until_it_does_not(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    for name in ("starts.at_start", "starts.at_end"):
        (folder / name).unlink(missing_ok=True)
    http.load_model("starts")
    (folder / "starts.at_start").write_text(
        "with (folder / 'started').open('a') as log: log.write('x')\nos._exit(1)"
    )
    assert "model 'starts'" in _error(http, DIES["killed"], "starts")
    pause = threading.Event()
    while not (folder / "started").exists() or len((folder / "started").read_text()) < 4:
        pause.wait(0.05)
    state, reason = _state(http, "starts")
    assert state == "UNAVAILABLE"
    assert "instance starts/1#0" in reason
    assert "restarting: " in reason or "; restarting" in reason
    assert "'starts'" in _error(http, "", "starts")
    (folder / "starts.at_start").unlink()
    _wait_until_back(http, "starts")
    assert _obey(http, "", "starts") == "done"
    http.unload_model("starts")


@pytest.mark.parametrize(
    "endless",
    ["while True: pass", "re.match('(a+)+$', 'a' * 64 + 'b')"],
    ids=["loops", "never lets go of the interpreter"],
)
def test_model_that_loops_for_ever_can_be_unloaded(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient, endless: str
) -> None:
    http.load_model("loops")
    (folder / "looping").unlink(missing_ok=True)
    answers: Queue[str] = Queue()

    def ask() -> None:
        with triton_http.InferenceServerClient(running.http, network_timeout=120) as client:
            answers.put(_error(client, f"(folder / 'looping').touch()\n{endless}", "loops"))

    caller = threading.Thread(target=ask)
    caller.start()
    _wait_for(folder / "looping")
    check_add_sub(http.infer("healthy", add_sub_inputs(triton_http)))
    http.unload_model("loops")
    caller.join(60)
    assert "model 'loops'" in answers.get_nowait()
    assert answers.empty()
    assert _state(http, "loops") == ("UNAVAILABLE", "unloaded")
    _wait_until_gone(running, "loops")


def test_model_that_loops_for_ever_in_initialize_can_be_unloaded(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    (folder / "looping").unlink(missing_ok=True)
    (folder / "starts.at_start").write_text("(folder / 'looping').touch()\nwhile True: pass")
    answers: Queue[str] = Queue()

    def load() -> None:
        with triton_http.InferenceServerClient(running.http, network_timeout=120) as client:
            try:
                client.load_model("starts")
            except InferenceServerException as error:
                answers.put(str(error))

    loader = threading.Thread(target=load)
    loader.start()
    _wait_for(folder / "looping")
    http.unload_model("starts")
    loader.join(60)
    assert "Newer operation has been applied" in answers.get_nowait()
    assert _state(http, "starts")[0] == "UNAVAILABLE"
    _wait_until_gone(running, "starts")


# Until a call was cancelled; one that comes after that ends at once.
WAITS = """
(folder / "waiting").touch()
for _ in range(6000):
    if (folder / "cancelled").exists():
        break
    if request.is_cancelled():
        (folder / "cancelled").touch()
        break
    time.sleep(0.01)
"""


def test_request_of_a_killed_caller_is_sent_again_and_what_it_called_is_cancelled(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    answers: Queue[str] = Queue()

    def ask() -> None:
        with triton_http.InferenceServerClient(running.http, network_timeout=120) as client:
            answers.put(_obey(client, f"said = call('waits', {WAITS!r})", "calls"))

    caller = threading.Thread(target=ask)
    caller.start()
    _wait_for(folder / "waiting")
    (victim,) = running.processes("ray::calls/1")
    running.kill(victim)
    _wait_for(folder / "cancelled")
    caller.join(60)
    assert answers.get_nowait() == "answered"
    assert answers.empty()
    assert _obey(http, "", "waits") == "done"
    _wait_until_back(http, "calls")
    assert _obey(http, "said = call('waits', '')", "calls") == "answered"


def test_what_a_killed_model_was_called_for_is_one_error_of_the_call(
    running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    said = _obey(http, f"said = call('waits', {DIES['killed']!r})", "calls")
    assert "model 'waits'" in said
    _wait_until_back(http, "waits")
    assert _obey(http, "said = call('waits', '')", "calls") == "answered"
    assert psutil.pid_exists(running.pid)


def test_killed_stream_is_what_was_sent_and_one_error(
    running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    code = """
sender = request.get_response_sender()
sender.send(text(1))
sender.send(text(2))
time.sleep(600)
"""
    answers: Queue[tuple[object, InferenceServerException | None]] = Queue()
    with triton_grpc.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("streams", _code(triton_grpc, code))
        for expected in (b"1", b"2"):
            result, error = answers.get(timeout=60)
            assert error is None
            assert result.as_numpy("SAYS")[0] == expected  # type: ignore[attr-defined]
        (victim,) = running.processes("ray::streams/1")
        running.kill(victim)
        _, error = answers.get(timeout=60)
        assert "model 'streams'" in str(error)
        client.stop_stream()
    assert answers.empty()
    pause = threading.Event()
    for _ in range(600):
        answer = _stream_once(running, "request.get_response_sender().send(text(3), flags=1)")
        if answer == b"3":
            break
        assert "'streams'" in str(answer)
        pause.wait(0.1)
    assert answer == b"3"


def _stream_once(server: RunningServer, code: str) -> object:
    answers: Queue[object] = Queue()
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error or result.as_numpy("SAYS")[0]))
        client.async_stream_infer("streams", _code(triton_grpc, code))
        answer = answers.get(timeout=60)
        client.stop_stream()
    return answer
