# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta analyze``, a field each.

Names, defaults and meanings are Model Analyzer's; those of the group of Manta's own are Manta's,
and those of the last group are accepted without effect.

Triton: model_analyzer/model_analyzer/config/input/config_command_profile.py,
config_command_report.py, config_defaults.py @63a0fec
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.options import models, values
from manta_tools.analyze.options.columns import GPU_FIELDS, INFERENCE_FIELDS, SERVER_FIELDS
from manta_tools.analyze.options.models import ProfiledModel
from manta_tools.analyze.options.option import BOTH, IGNORED, REPORT, Option, option
from manta_tools.analyze.options.plots import Plot, ReportedConfig, read_configs, read_plots
from manta_tools.analyze.tags import THROUGHPUT

BRUTE: Final = "brute"
QUICK: Final = "quick"
OPTUNA: Final = "optuna"
HALVING: Final = "halving"
MODES: Final = (BRUTE, QUICK, OPTUNA, HALVING)

_MODELS: Final = "Models"
_WANTED: Final = "What is wanted"
_LOADS: Final = "Loads"
_SEARCH: Final = "Search"
_SERVER: Final = "Server"
_MEASURING: Final = "Measurement"
_FILES: Final = "Files"
_REPORTS: Final = "Reports"
_OWN: Final = "Not Model Analyzer's"
_IGNORED: Final = IGNORED
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """The options of an analysis; `OPTIONS` says how each is given, and what it means."""

    config_file: str = option(
        "",
        _MODELS,
        "YAML file with any of these options; those of the command line come before it.",
        short="f",
        commands=BOTH,
    )
    model_repository: str = option("", _MODELS, "Directory of the models.", short="m")
    profile_models: tuple[ProfiledModel, ...] = option(
        (), _MODELS, "Models to measure.", models.models
    )
    bls_composing_models: tuple[ProfiledModel, ...] = option(
        (), _MODELS, "Models that the BLS model calls, searched with it.", models.models
    )
    ensemble_composing_models: tuple[ProfiledModel, ...] = option(
        (),
        _MODELS,
        "What is said of an ensemble's models; which they are, its config says.",
        models.models,
    )
    cpu_only_composing_models: tuple[str, ...] = option(
        (), _MODELS, "Composing models whose instances stay on CPUs.", values.words
    )

    objectives: tuple[tuple[str, float], ...] = option(
        ((THROUGHPUT, 1.0),),
        _WANTED,
        "Metrics that shall be good, a list or with weights.",
        values.objectives,
    )
    constraints: tuple[Bound, ...] = option(
        (), _WANTED, "Limits of metrics: min or max.", values.constraints
    )
    latency_budget: float = option(
        0.0, _WANTED, "Most milliseconds of perf_latency_p99; 0 for no limit.", values.real()
    )
    min_throughput: float = option(
        0.0, _WANTED, "Fewest inferences a second; 0 for no limit.", values.real()
    )
    weighting: float = option(
        0.0,
        _WANTED,
        "Belongs to a model: what it counts among those measured at once.",
        values.real(),
        is_on_command_line=False,
    )

    batch_sizes: tuple[int, ...] = option(
        (1,), _LOADS, "Inferences of a request.", values.whole_numbers(1), short="b"
    )
    concurrency: tuple[int, ...] = option(
        (),
        _LOADS,
        "Requests in flight; searched where left out.",
        values.whole_numbers(1),
        short="c",
    )
    request_rate: tuple[int, ...] = option(
        (), _LOADS, "Requests a second, in place of concurrency.", values.whole_numbers(1)
    )
    request_rate_search_enable: bool = option(
        False, _LOADS, "Search request rates in place of concurrency."
    )

    run_config_search_mode: str = option(
        "",
        _SEARCH,
        "brute, quick, optuna or halving; else brute, or quick where several models are searched.",
        values.word(*MODES),
    )
    run_config_search_disable: bool = option(False, _SEARCH, "Measure only what is listed.")
    run_config_profile_models_concurrently_enable: bool = option(
        False, _SEARCH, "Measure all models at once."
    )
    run_config_search_min_concurrency: int = option(
        1, _SEARCH, "Fewest requests in flight.", values.whole(1)
    )
    run_config_search_max_concurrency: int = option(
        1024, _SEARCH, "Most requests in flight.", values.whole(1)
    )
    run_config_search_min_model_batch_size: int = option(
        1, _SEARCH, "Smallest max_batch_size.", values.whole(1)
    )
    run_config_search_max_model_batch_size: int = option(
        128, _SEARCH, "Largest max_batch_size.", values.whole(1)
    )
    run_config_search_min_instance_count: int = option(
        1, _SEARCH, "Fewest instances of a group.", values.whole(1)
    )
    run_config_search_max_instance_count: int = option(
        5, _SEARCH, "Most instances of a group.", values.whole(1)
    )
    run_config_search_min_request_rate: int = option(
        16, _SEARCH, "Lowest request rate.", values.whole(1)
    )
    run_config_search_max_request_rate: int = option(
        8192, _SEARCH, "Highest request rate.", values.whole(1)
    )
    run_config_search_max_binary_search_steps: int = option(
        5,
        _SEARCH,
        "Most steps towards the highest load that keeps the constraints.",
        values.whole(0),
    )
    early_exit_enable: bool = option(
        False, _SEARCH, "Leave out larger batches once they have stopped to gain."
    )
    concurrency_sweep_disable: bool = option(
        False, _SEARCH, "Do not measure the best configurations at all loads in the end."
    )
    min_percentage_of_search_space: float = option(
        5.0, _SEARCH, "Least percents of the space for optuna.", values.real()
    )
    max_percentage_of_search_space: float = option(
        10.0, _SEARCH, "Most percents of the space for optuna and halving.", values.real()
    )
    optuna_min_trials: int = option(
        0, _SEARCH, "Trials of optuna at least, in place of the percentage.", values.whole(1)
    )
    optuna_max_trials: int = option(
        0, _SEARCH, "Trials of optuna at most, in place of the percentage.", values.whole(1)
    )
    optuna_early_exit_threshold: int = option(
        10, _SEARCH, "Trials without a better one that end optuna.", values.whole(1)
    )
    use_concurrency_formula: bool = option(
        False, _SEARCH, "Let optuna take the concurrency 2 x max_batch_size x instances."
    )

    triton_launch_mode: str = option(
        "local",
        _SERVER,
        "local starts a server, remote uses one that runs; docker and c_api are as local.",
        values.word("local", "remote", "docker", "c_api"),
    )
    triton_http_endpoint: str = option("localhost:8000", _SERVER, "HTTP of a remote server.")
    triton_grpc_endpoint: str = option("localhost:8001", _SERVER, "gRPC of a remote server.")
    triton_metrics_url: str = option(
        "http://localhost:8002/metrics", _SERVER, "Metrics of a remote server."
    )
    triton_output_path: str = option("", _SERVER, "File for what a started server logs.")
    triton_server_flags: Mapping[str, Any] = option(
        _NONE,
        _SERVER,
        "Options of a started server.",
        values.flags_of_program,
        is_on_command_line=False,
    )
    triton_server_environment: Mapping[str, Any] = option(
        _NONE,
        _SERVER,
        "Environment variables of a started server.",
        values.mapping,
        is_on_command_line=False,
    )
    reload_model_disable: bool = option(
        False, _SERVER, "Measure a remote server's models as they are."
    )
    client_protocol: str = option(
        "grpc", _SERVER, "How requests travel.", values.word("http", "grpc")
    )
    client_max_retries: int = option(
        50,
        _SERVER,
        "How often a call to a server that does not answer is tried again.",
        values.whole(0),
        short="r",
    )

    perf_analyzer_flags: Mapping[str, Any] = option(
        _NONE,
        _MEASURING,
        "Options of the load generator, as manta perf has them.",
        values.flags_of_program,
        is_on_command_line=False,
    )
    perf_analyzer_timeout: int = option(
        600, _MEASURING, "Most seconds of one measurement.", values.whole(1)
    )
    perf_analyzer_max_auto_adjusts: int = option(
        10,
        _MEASURING,
        "How often a measurement that is not stable is tried with longer windows.",
        values.whole(0),
    )
    perf_output: bool = option(False, _MEASURING, "Print what the load generator reports.")
    perf_output_path: str = option("", _MEASURING, "Directory for it, in place of the console.")
    duration_seconds: int = option(
        3, _MEASURING, "Seconds that the idle GPUs are measured.", values.whole(0), short="d"
    )
    monitoring_interval: float = option(
        1.0,
        _MEASURING,
        "Seconds between two readings of memory and GPUs.",
        values.real(0.001),
        short="i",
    )
    gpus: tuple[str, ...] = option(
        ("all",), _MEASURING, "UUIDs of the GPUs to watch, or all.", values.words
    )
    always_report_gpu_metrics: bool = option(
        False, _MEASURING, "Report GPUs for configurations on CPUs too.", commands=BOTH
    )

    checkpoint_directory: str = option(
        "checkpoints",
        _FILES,
        "Where measurements are kept and read from.",
        short="s",
        commands=BOTH,
    )
    export_path: str = option(
        ".", _FILES, "Where results and reports go.", short="e", commands=BOTH
    )
    output_model_repository_path: str = option(
        "output_model_repository", _FILES, "Where the best configurations go, as models."
    )
    override_output_model_repository: bool = option(False, _FILES, "Replace what is there.")
    filename_model_inference: str = option(
        "metrics-model-inference.csv", _FILES, "Name of the file of results."
    )
    filename_model_gpu: str = option(
        "metrics-model-gpu.csv", _FILES, "Name of the file of results by GPU."
    )
    filename_server_only: str = option(
        "metrics-server-only.csv", _FILES, "Name of the file of the idle server."
    )

    num_configs_per_model: int = option(
        3,
        _REPORTS,
        "Best configurations of a model that are reported, and swept in the end.",
        values.whole(0),
    )
    num_top_model_configs: int = option(
        0,
        _REPORTS,
        "Best configurations of all models together that are reported.",
        values.whole(0),
    )
    skip_summary_reports: bool = option(False, _REPORTS, "Write no summaries.")
    skip_detailed_reports: bool = option(False, _REPORTS, "Write no detailed reports.")
    inference_output_fields: tuple[str, ...] = option(
        INFERENCE_FIELDS, _REPORTS, "Columns of results.", values.words
    )
    gpu_output_fields: tuple[str, ...] = option(
        GPU_FIELDS, _REPORTS, "Columns of results by GPU.", values.words
    )
    server_output_fields: tuple[str, ...] = option(
        SERVER_FIELDS, _REPORTS, "Columns of the idle server.", values.words
    )
    plots: tuple[Plot, ...] = option(
        (), _REPORTS, "Plots of reports.", read_plots, commands=BOTH, is_on_command_line=False
    )
    report_model_configs: tuple[ReportedConfig, ...] = option(
        (),
        _REPORTS,
        "Configurations to report in detail.",
        read_configs,
        short="n",
        commands=(REPORT,),
    )

    search_queue_delays_us: tuple[int, ...] = option(
        (),
        _OWN,
        "Microseconds that a request may wait for a batch, to search.",
        values.whole_numbers(0),
    )
    search_threads: tuple[int, ...] = option(
        (),
        _OWN,
        "Threads of an operation, to search, of backends that have a parameter for them.",
        values.whole_numbers(1),
    )
    search_gpu_fractions: tuple[float, ...] = option(
        (), _OWN, "Parts of a GPU that an instance reserves, to search.", values.real_numbers(0.001)
    )
    price_per_node_hour: float = option(
        0.0, _OWN, "Price of a node, for cost_per_million_inferences; 0 for unknown.", values.real()
    )
    apply: bool = option(
        False,
        _OWN,
        "Load the best configuration into the server at triton_http_endpoint in the end.",
    )
    nodes: int = option(
        0,
        _OWN,
        "Free nodes of the Ray cluster to measure on: auto for all, 0 for this machine alone.",
        values.count_or_auto,
    )
    seed: int = option(0, _OWN, "Seed of what is chosen by chance.", values.whole(0))

    model_type: str = option(
        "generic",
        _IGNORED,
        "language models are measured as others are",
        values.word("generic", "LLM"),
    )
    genai_perf_flags: Mapping[str, Any] = option(
        _NONE,
        _IGNORED,
        "language models are measured as others are",
        values.flags_of_program,
        is_on_command_line=False,
    )
    collect_cpu_metrics: bool = option(False, _IGNORED, "memory of CPUs is always measured")
    dcgm_disable: bool = option(False, _IGNORED, "GPUs are read without DCGM")
    perf_analyzer_path: str = option("", _IGNORED, "the load generator is Manta's")
    perf_analyzer_cpu_util: str = option(
        "", _IGNORED, "the load generator says itself when it is too busy"
    )
    triton_docker_image: str = option("", _IGNORED, "the server is Manta's, without containers")
    triton_docker_mounts: tuple[str, ...] = option(
        (), _IGNORED, "the server is Manta's, without containers", values.words
    )
    triton_docker_shm_size: str = option("", _IGNORED, "the server is Manta's, without containers")
    triton_docker_labels: Mapping[str, Any] = option(
        _NONE,
        _IGNORED,
        "the server is Manta's, without containers",
        values.mapping,
        is_on_command_line=False,
    )
    triton_docker_args: Mapping[str, Any] = option(
        _NONE,
        _IGNORED,
        "the server is Manta's, without containers",
        values.mapping,
        is_on_command_line=False,
    )
    triton_server_path: str = option("", _IGNORED, "the server is Manta's, without containers")
    triton_install_path: str = option("", _IGNORED, "the server is Manta's, without containers")


OPTIONS: Final[dict[str, Option]] = {
    row.name: Option(name=row.name, **dict(row.metadata)) for row in fields(AnalyzeOptions)
}
DEFAULTS: Final = AnalyzeOptions()
