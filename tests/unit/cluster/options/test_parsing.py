# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import __version__
from cluster.options.parsing import OptionError, from_mapping, parse_options, render_options
from cluster.options.table import DEFAULTS, FLAGS, PENDING
from deployments.grpc.server.grpcio_server import OPTIONS
from tests.support.examples import examples
from tests.support.server import ROOT
from tests.support.server_options import REPOSITORY, file_with, no_file, refusal

TLS = ("use_ssl", "use_ssl_mutual", "server_cert", "server_key", "root_cert")


def test_defaults_are_tritons():
    options = parse_options([REPOSITORY], {}, no_file)
    assert (options.http_port, options.grpc_port, options.metrics_port) == (8000, 8001, 8002)
    assert options.http_address == options.metrics_address == "0.0.0.0"
    assert options.id == "triton"
    assert options.strict_readiness
    assert options.exit_on_error
    assert not options.allow_client_shm
    assert options.model_control_mode == "none"
    assert options.sources["http_port"] == "default"


@pytest.mark.parametrize("argv", [["--http-port=9"], ["--http-port", "9"]])
def test_values_follow_an_equals_sign_or_a_blank(argv: list[str]):
    assert parse_options([REPOSITORY, *argv], {}, no_file).http_port == 9


def test_flag_beats_environment_beats_file_beats_default():
    text = "http-port: 1\ngrpc_port: 2\nmetrics-port: 3\nmodel-repository: [/a, /b]"
    options = parse_options(
        ["--config=server.yaml", "--http-port=11"],
        {"MANTA_HTTP_PORT": "21", "MANTA_GRPC_PORT": "22"},
        file_with(text),
    )
    assert (options.http_port, options.grpc_port, options.metrics_port) == (11, 22, 3)
    assert options.model_repository == ("/a", "/b")
    sources = options.sources
    assert [sources[f"{name}_port"] for name in ("http", "grpc", "metrics")] == [
        "flag",
        "environment",
        "file",
    ]
    assert sources["id"] == "default"


def test_variables_that_hold_schedulers_back_travel_with_the_options():
    held = {"TRITONSERVER_DELAY_SCHEDULER": "12", "TRITONSERVER_BACKLOG_DELAY_SCHEDULER": "2"}
    options = parse_options([REPOSITORY], held | {"HOME": "/"}, no_file)
    assert pickle.loads(pickle.dumps(options)).scheduler_holds == held
    assert not parse_options([REPOSITORY], {}, no_file).scheduler_holds


def test_ray_address_of_a_ray_job_is_the_weakest_source():
    job = {"RAY_ADDRESS": "10.0.0.1:6379"}
    assert parse_options([REPOSITORY], job, no_file).ray_address == "10.0.0.1:6379"
    named = parse_options([REPOSITORY, "--config=x"], job, file_with("ray-address: auto"))
    assert named.ray_address == "auto"
    both = {**job, "MANTA_RAY_ADDRESS": ""}
    assert parse_options([REPOSITORY], both, no_file).ray_address == ""


def test_ray_address_of_a_dashboard_is_not_joined():
    environ = {"RAY_ADDRESS": "http://127.0.0.1:8265"}
    assert parse_options([REPOSITORY], environ, no_file).ray_address == ""


def test_processes_are_forked_unless_it_is_said_that_they_shall_not_be():
    assert not parse_options([REPOSITORY], {}, no_file).no_fork_server
    assert parse_options([REPOSITORY, "--no-fork-server"], {}, no_file).no_fork_server
    by_environment = {"MANTA_NO_FORK_SERVER": "true"}
    assert parse_options([REPOSITORY], by_environment, no_file).no_fork_server


def test_modules_to_import_beforehand_are_named_with_commas_between_them():
    flag = "--fork-server-preload"
    assert parse_options([REPOSITORY], {}, no_file).fork_server_preload == ""
    for text in ("a,b.c", " a , b.c "):
        assert parse_options([REPOSITORY, flag, text], {}, no_file).fork_server_preload == "a,b.c"
    by_environment = {"MANTA_FORK_SERVER_PRELOAD": "a"}
    assert parse_options([REPOSITORY], by_environment, no_file).fork_server_preload == "a"
    for text in ("a,,b", "a-b", "a.", "a b", "import a"):
        assert "expected names of Python modules" in refusal_text(REPOSITORY, f"{flag}={text}")


def test_modules_that_nobody_imports_beforehand_are_warned_of():
    flag = "--fork-server-preload=a"
    assert not parse_options([REPOSITORY, flag], {}, no_file).warnings
    (plain,) = parse_options([REPOSITORY, flag, "--no-fork-server"], {}, no_file).warnings
    assert plain == "Warning: '--fork-server-preload' has no effect with '--no-fork-server'."
    (joined,) = parse_options([REPOSITORY, flag, "--ray-address=auto"], {}, no_file).warnings
    assert "set MANTA_FORK_SERVER_PRELOAD in the environment of 'ray start'" in joined
    for_ray_start = {"MANTA_FORK_SERVER_PRELOAD": "a"}
    assert not parse_options([REPOSITORY, "--ray-address=auto"], for_ray_start, no_file).warnings


def test_the_environment_separates_repeated_values():
    options = parse_options([], {"MANTA_MODEL_REPOSITORY": "/a;/b"}, no_file)
    assert options.model_repository == ("/a", "/b")


def test_the_file_may_be_named_by_the_environment():
    options = parse_options([REPOSITORY], {"MANTA_CONFIG": "x"}, file_with("id: y"))
    assert options.id == "y"


def test_model_store_is_model_repository():
    options = parse_options(["--model-store=/a", "--model-repository", "/b"], {}, no_file)
    assert options.model_repository == ("/a", "/b")


def test_the_last_of_several_values_counts():
    assert parse_options([REPOSITORY, "--id=a", "--id=b"], {}, no_file).id == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("ON", True), ("1", True), ("False", False), ("0", False)],
)
def test_bool_spellings(text: str, expected: bool):
    assert parse_options([REPOSITORY, f"--allow-http={text}"], {}, no_file).allow_http is expected


def test_structured_values():
    options = parse_options(
        [
            REPOSITORY,
            "--backend-config=python,shm-default-byte-size=1",
            "--backend-config=default-max-batch-size=8",
            "--trace-config=opentelemetry,resource=service.name=x",
            "--trace-config=level=timestamps",
            "--rate-limit-resource=R1:4:0",
            "--rate-limit-resource=R2:2",
            "--http-restricted-api=health,metadata:key=a=b",
            "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01",
            "--model-load-gpu-limit=0:0.5",
            "--log-verbose=true",
        ],
        {},
        no_file,
    )
    assert options.backend_config == (
        ("python", "shm-default-byte-size", "1"),
        ("", "default-max-batch-size", "8"),
    )
    assert options.trace_config == (
        ("opentelemetry", "resource", "service.name=x"),
        ("", "level", "TIMESTAMPS"),
    )
    assert options.rate_limit_resource == (("R1", 4, 0), ("R2", 2, -1))
    assert options.http_restricted_api == ((("health", "metadata"), "key", "a=b"),)
    assert options.metrics_config == (("summary_quantiles", "0.5:0.05,0.9:0.01"),)
    assert options.model_load_gpu_limit == ((0, 0.5),)
    assert options.log_verbose == 1


def test_deprecated_flags_warn_and_become_their_replacements():
    options = parse_options(
        [
            REPOSITORY,
            "--strict-model-config=false",
            "--disable-auto-complete-config",
            "--response-cache-byte-size=7",
            "--trace-file=/t",
            "--trace-level=on",
            "--trace-level=TENSORS",
            "--trace-config=rate=5",
        ],
        {},
        no_file,
    )
    assert options.disable_auto_complete_config
    assert options.cache_config == (("local", "size", "7"),)
    assert options.trace_config == (
        ("triton", "file", "/t"),
        ("", "level", "TIMESTAMPS"),
        ("", "level", "TENSORS"),
        ("", "rate", "5"),
    )
    assert len(options.warnings) == 5
    assert "Overriding deprecated '--strict-model-config' from False to True" in options.warnings[1]


def test_vertex_ai_sets_defaults():
    environ = {"AIP_MODE": "PREDICTION", "AIP_HTTP_PORT": "99", "AIP_STORAGE_URI": "/m"}
    options = parse_options(["--allow-grpc=true"], environ, no_file)
    assert options.allow_vertex_ai
    assert not options.allow_http
    assert options.allow_grpc
    assert options.vertex_ai_port == 99
    assert options.model_repository == ("/m",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("htp-port: 1", "unknown key 'htp-port' in s.yaml, did you mean 'http-port'?"),
        ("http-port: x", "Invalid option value. Got x (key 'http-port' in s.yaml)"),
        ("http-port: [1]", "takes one value, got a list"),
        ("http-port: 1\nhttp_port: 2", "is given twice"),
        ("config: x", "cannot name a further file"),
        ("- a", "got no mapping"),
        ("{", "not YAML"),
        ("#" * (1 << 21), "larger than"),
    ],
)
def test_a_wrong_file_stops_the_start(text: str, expected: str):
    assert expected in refusal(REPOSITORY, "--config=s.yaml", file=file_with(text))


def test_a_missing_file_stops_the_start():
    assert "No such file or directory" in refusal(REPOSITORY, "--config=s.yaml")


def test_an_empty_file_changes_nothing():
    assert parse_options([REPOSITORY, "--config=x"], {}, file_with("")).http_port == 8000


def test_a_wrong_environment_variable_is_named():
    message = refusal(REPOSITORY, environ={"MANTA_ALLOW_GRPC": "maybe"})
    assert "invalid value for bool option: maybe (environment variable MANTA_ALLOW_GRPC)" in message


def test_mapping_takes_text_and_plain_values():
    options = from_mapping(
        {"model_repository": "/a;/b", "http-port": "9", "allow_grpc": False, "load_model": []}
    )
    assert options.model_repository == ("/a", "/b")
    assert (options.http_port, options.allow_grpc) == (9, False)
    assert options.sources["http_port"] == "argument"
    with pytest.raises(OptionError, match="did you mean 'model-repository'"):
        from_mapping({"model_repo": "/a"})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--dashboard"], True),
        (["--dashboard", "--log-format", "ISO8601"], True),
        (["--dashboard", "false"], False),
        (["--dashboard=off"], False),
        (["--dashboard", "on", "--log-format=ISO8601"], True),
    ],
)
def test_a_boolean_that_is_given_alone_is_true(arguments: list[str], expected: bool):
    options = parse_options([REPOSITORY, *arguments], {}, no_file)
    assert options.dashboard is expected
    assert options.log_format == ("ISO8601" if len(arguments) > 2 else "default")


def test_a_word_behind_a_boolean_is_its_value():
    assert "invalid value for bool option: maybe" in refusal(REPOSITORY, "--dashboard", "maybe")


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("--help", "Usage: manta serve"), ("-h", "--model-repository"), ("--version", __version__)],
)
def test_help_and_version_end_well(flag: str, expected: str):
    with pytest.raises(OptionError) as caught:
        parse_options([flag], {}, no_file)
    assert caught.value.exit_code == 0
    assert expected in str(caught.value)


def test_help_lists_every_flag():
    with pytest.raises(OptionError) as caught:
        parse_options(["--help"], {}, no_file)
    lines = str(caught.value).splitlines()
    assert all(
        any(line.startswith(f"  --{flag.name}") for line in lines) for flag in FLAGS.values()
    )
    assert max(map(len, lines)) <= 80


def test_rendered_options_hide_secrets():
    options = parse_options(
        [REPOSITORY, "--http-restricted-api=health:key=hunter2", "--print-options"], {}, no_file
    )
    rendered = render_options(options)
    assert "hunter2" not in rendered + repr(options)
    assert any(
        line.split() == ["--model-repository", "/models", "flag"] for line in rendered.splitlines()
    )


def test_options_can_be_printed_without_a_repository():
    assert parse_options(["--print-options"], {}, no_file).print_options


def test_options_and_errors_survive_pickling():
    options = parse_options([REPOSITORY], {}, no_file)
    assert pickle.loads(pickle.dumps(options)) == options
    error = pickle.loads(pickle.dumps(OptionError("x", 0)))
    assert (str(error), error.exit_code) == ("x", 0)


PLAIN = [
    name
    for name, default in DEFAULTS.items()
    # TLS needs files as well, and signed models need keys.
    if isinstance(default, bool)
    and FLAGS[name].takes_value
    and "use_ssl" not in name
    and name not in {"require_signed_models", "consolidate_nodes"}
]


@settings(max_examples=examples(50))
@given(st.dictionaries(st.sampled_from(PLAIN), st.booleans(), max_size=5))
def test_all_sources_agree(chosen: dict[str, bool]):
    argv = [f"--{FLAGS[name].name}={value}" for name, value in chosen.items()]
    environ = {f"MANTA_{name.upper()}": str(value) for name, value in chosen.items()}
    # The ports of SageMaker and Vertex AI clash by default.
    by_flag = parse_options([REPOSITORY, "--sagemaker-port=1", *argv], {}, no_file)
    by_environment = parse_options([REPOSITORY, "--sagemaker-port=1"], environ, no_file)
    by_mapping = from_mapping({"model_repository": "/models", "sagemaker_port": 1, **chosen})
    for name in DEFAULTS:
        assert getattr(by_flag, name) == getattr(by_environment, name) == getattr(by_mapping, name)


def test_the_arguments_of_kserves_triton_runtime_are_taken() -> None:
    arguments = [
        "--model-store=/mnt/models",
        "--grpc-port=9000",
        "--http-port=8080",
        "--allow-grpc=true",
        "--allow-http=true",
    ]
    options = parse_options(arguments, {}, no_file)
    assert (options.model_repository, options.grpc_port, options.http_port) == (
        ("/mnt/models",),
        9000,
        8080,
    )
    assert (options.allow_grpc, options.allow_http, options.metrics_port) == (True, True, 8002)


def test_the_arguments_of_modelmeshs_triton_runtime_are_taken() -> None:
    arguments = [
        "--model-repository=/models/_triton_models",
        "--model-control-mode=explicit",
        "--strict-model-config=false",
        "--strict-readiness=false",
        "--allow-http=true",
        "--allow-sagemaker=false",
    ]
    options = parse_options(arguments, {}, no_file)
    assert options.model_control_mode == "explicit"
    assert not options.disable_auto_complete_config
    assert not options.strict_readiness


# Folded into other options when they are parsed.
FOLDED = {
    "response_cache_byte_size",
    "strict_model_config",
    "trace_count",
    "trace_file",
    "trace_level",
    "trace_log_frequency",
    "trace_rate",
}
OPTION_MODULES = {"checks.py", "parsing.py", "own.py", "table.py", "values.py"}


def test_every_flag_has_an_effect_or_says_that_it_has_none() -> None:
    # Those of tools have options of their own.
    folders = (path for path in (ROOT / "cluster").iterdir() if path.name != "tools")
    modules = (path for folder in folders for path in [folder, *folder.rglob("*.py")])
    source = "".join(p.read_text() for p in modules if p.suffix and p.name not in OPTION_MODULES)
    # How those of TLS and keepalive are named there: by protocol, and as gRPC names them.
    source += "".join(
        f" {protocol}_{name}" for protocol in ("http", "grpc", "metrics") for name in TLS
    )
    source += "".join(f" grpc_{name.replace('-', '_')}" for name in OPTIONS)
    words = set(re.findall(r"\w+", source))
    others = words - FLAGS.keys()
    read = words | {word[at.end() :] for word in others for at in re.finditer("_", word)}
    for name, flag in FLAGS.items():
        is_read = name in read
        assert is_read != (flag.is_unused or name in PENDING or name in FOLDED), name


def test_a_flag_without_effect_is_warned_of_unless_it_has_its_default() -> None:
    options = parse_options(
        [REPOSITORY, "--allow-vertex-ai=true", "--rate-limit=off", "--allow-sagemaker=false"],
        {},
        no_file,
    )
    assert options.warnings == ("Warning: '--allow-vertex-ai' is not there yet and has no effect.",)
    assert "Not there yet: accepted, but has no effect." in refusal_text("--help")


def refusal_text(*argv: str) -> str:
    with pytest.raises(OptionError) as caught:
        parse_options(argv, {}, no_file)
    return " ".join(str(caught.value).split())


def test_example_file_is_taken_and_says_what_holds_by_default():
    path = ROOT / "configs/server.yaml"
    options = parse_options([f"--config={path}"], {}, lambda path: Path(path).read_text())
    given = {name for name, source in options.sources.items() if source == "file"}
    changed = {name for name in given if getattr(options, name) != DEFAULTS[name]}
    assert changed == {"model_repository", "model_control_mode", "load_model"}
    assert options.model_repository == ("configs/models",)


@pytest.mark.parametrize("link", ["tcp://10.96.0.7:80", "udp://10.96.0.7:80"])
def test_what_kubernetes_says_of_a_service_is_no_port(link):
    environ = {"MANTA_HTTP_PORT": link, "MANTA_PORT": link, "MANTA_GRPC_PORT": "9000"}
    options = parse_options([REPOSITORY], environ, no_file)
    assert (options.http_port, options.grpc_port) == (8000, 9000)


def test_a_trace_url_with_a_password_is_refused_without_repeating_it() -> None:
    flag = "--trace-config=opentelemetry,url=http://who:hush@collector:4318/v1/traces"
    with pytest.raises(OptionError, match="OTEL_EXPORTER_OTLP_HEADERS") as refusal:
        parse_options([REPOSITORY, flag], {}, lambda _: "")
    assert "hush" not in str(refusal.value)
