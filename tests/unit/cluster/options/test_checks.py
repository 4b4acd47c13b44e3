# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Values and combinations of options that stop the start."""

import pytest

from cluster.options.parsing import OptionError, parse_options
from tests.support.server_options import REPOSITORY, no_file, refusal


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--allow-http=yes", 'Bad option: "--allow-http".\ninvalid value for bool option: yes'),
        ("--http-port=x", 'Bad option: "--http-port".\nInvalid option value. Got x'),
        ("--http-port=8_0", "Invalid option value. Got 8_0"),
        ("--http-port=70000", "expected a port from 0 to 65535"),
        ("--exit-timeout-secs=99999999999", "Provided option value is out of bound."),
        ("--log-format=x", "invalid argument for --log-format"),
        ("--model-control-mode=x", "invalid argument for --model-control-mode"),
        ("--rate-limit=x", "invalid argument for --rate-limit"),
        ("--http-max-input-size=0", "Error: --http-max-input-size must be greater than 0."),
        (
            "--ingress-memory-limit-bytes=-1",
            "Error: --ingress-memory-limit-bytes must not be negative.",
        ),
        ("--model-cache-max-bytes=-1", "Error: --model-cache-max-bytes must not be negative."),
        ("--model-cache-directory=cache", "got 'cache', expected an absolute path"),
        ("--grpc-infer-thread-count=1", "Must be in the range 2 to 128."),
        ("--model-config-name=", "Error: empty argument for --model-config-name"),
        ("--model-config-name=../x", "expected a file name without spaces"),
        ("--cache-config=size=3", "No cache specified. --cache-config option format is"),
        ("--cache-config=local,size", "--cache-config option format is '<cache name>,"),
        ("--host-policy=cpu,cores=0-1", "Unsupported host policy setting 'cores' is specified, "),
        ("--host-policy=cpu-cores=0-1", "No policy specified. --host-policy option format is"),
        ("--backend-config=,a=b", "No backend specified. --backend-config option format is"),
        ("--backend-config=a", "--backend-config option format is '<backend name>,"),
        ("--metrics-config=a,b=c", "--metrics-config option format is <setting>=<value>."),
        ("--require-signed-models=true", "give --trusted-keys as well"),
        ("--rate-limit-resource=r", "--rate-limit-resource option format is '<resource_name>:"),
        ("--http-restricted-api=foo:k=v", "unknown restricted api 'foo'"),
        ("--http-restricted-api=health:k", "--http-restricted-api option format is"),
        ("--grpc-restricted-protocol=x:k=v", "unknown restricted protocol 'x'"),
        ("--trace-config=level=x", "invalid value for trace level option: x"),
        ("--trace-config=mode=x", "invalid value for trace mode option: x"),
        ("--trace-config=rate=x", 'Bad option: "--trace-config rate".\nInvalid option value.'),
        ("--cuda-memory-pool-byte-size=1", "Cannot parse pair option"),
        ("--metrics-interval-ms=nan", "out of bound"),
        ("--metrics-interval-ms=x", "Invalid option value. Got x"),
        ("--cpus-per-instance=-1", "expected >= 0"),
        ("--instance-heartbeat-timeout-secs=-1", "expected >= 0"),
        ("--prefetch-cache-fraction=-0.1", "expected from 0 to 1"),
        ("--prefetch-cache-fraction=1.1", "expected from 0 to 1"),
        ("--lane-port-range=9-8", "expected <first>-<last> with 1 <= first <= last"),
        ("--lane-tls=on", "invalid argument for --lane-tls"),
        ("--consolidate-after-secs=-1", "expected >= 0"),
        ("--ingress-label-selector=a=b", 'of Ray\'s label conditions, for example {"ingress":'),
        ("--grpc-server=x", "expected one of own, grpcio"),
        ("--http-prt=1", "unrecognized option '--http-prt', did you mean '--http-port'?"),
        ("--http_port=1", "did you mean '--http-port'?"),
        ("--disable-auto-complete-config=true", "doesn't allow an argument"),
        ("models", "Unexpected argument: models"),
        ("--", "Unexpected argument: --"),
        ("--id", "option '--id' requires an argument"),
    ],
)
def test_a_wrong_argument_stops_the_start(argument: str, expected: str):
    assert expected in refusal(REPOSITORY, argument)


def test_a_restriction_that_is_refused_keeps_its_secret():
    assert "hunter2" not in refusal(REPOSITORY, "--http-restricted-api=health:hunter2")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "--model-repository must be specified"),
        (
            [REPOSITORY, "--load-model=a"],
            "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as "
            "well.",
        ),
        (
            [REPOSITORY, "--model-control-mode=EXPLICIT", "--load-model=a", "--load-model=*"],
            "Wildcard model name '*' must be the ONLY startup model if specified at all.",
        ),
        (
            [REPOSITORY, "--grpc-port=8000"],
            "The server cannot listen to HTTP requests and GRPC requests at the same address and "
            "port 0.0.0.0:8000",
        ),
        (
            [REPOSITORY, "--openai-port=9000", "--allow-http=false"],
            "--openai-port serves what the HTTP port does; leave out --allow-http=false",
        ),
        (
            [REPOSITORY, "--openai-port=8001"],
            "The server cannot listen to GRPC requests and OpenAI requests at the same address and "
            "port 0.0.0.0:8001",
        ),
        (
            [REPOSITORY, "--grpc-header-forward-pattern=(?-x)a"],
            "--grpc-header-forward-pattern '(?-x)a' is not a regular expression: missing : at "
            "position 4; give one in the syntax of Python's re",
        ),
        (
            [REPOSITORY, "--allow-sagemaker=true", "--sagemaker-safe-port-range=8080-8090"],
            "The server cannot listen to HTTP requests at port 8000, allowed port range is "
            "[8080, 8090]",
        ),
        (
            [REPOSITORY, "--cache-config=local,size=1", "--cache-config=redis,host=x"],
            "found multiple cache configurations, but only a single cache is currently supported",
        ),
        (
            [REPOSITORY, "--cache-config=local,size=1", "--response-cache-byte-size=1"],
            "Error: Incompatible flags --response-cache-byte-size and --cache-config both "
            "provided. Please provide one or the other.",
        ),
        (
            [REPOSITORY, "--consolidate-nodes=true"],
            "--consolidate-nodes needs nodes without an ingress, as one with an ingress is never"
            " removed: give --ingress-label-selector as well",
        ),
        (
            [REPOSITORY, "--http-restricted-api=health:a=b", "--http-restricted-api=health:c=d"],
            "Bad option: \"--http-restricted-api\".\nrestricted api 'health' can not be specified "
            "in multiple config groups",
        ),
    ],
)
def test_options_that_contradict_each_other(argv: list[str], expected: str):
    assert refusal(*argv) == expected


@pytest.mark.parametrize("ports", ["7000-8000", "8002-8002", "1-65535"])
def test_a_port_for_clients_is_not_among_those_of_lanes(ports):
    expected = f"whose --lane-port-range is {ports}; give another port or range"
    assert expected in refusal(REPOSITORY, f"--lane-port-range={ports}")


def test_port_0_never_clashes():
    argv = [REPOSITORY, "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    assert parse_options(argv, {}, no_file).grpc_port == 0


def test_other_addresses_or_switched_off_endpoints_do_not_clash():
    parse_options([REPOSITORY, "--grpc-port=8000", "--grpc-address=127.0.0.1"], {}, no_file)
    parse_options([REPOSITORY, "--grpc-port=8000", "--allow-http=0"], {}, no_file)


def test_metrics_of_devices_need_metrics():
    options = parse_options([REPOSITORY, "--allow-metrics=false"], {}, no_file)
    assert not options.allow_gpu_metrics
    assert not options.allow_cpu_metrics


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_mutual_tls_is_tls(protocol):
    files = [f"--{protocol}-{name}=f" for name in ("server-cert", "server-key", "root-cert")]
    options = parse_options([REPOSITORY, f"--{protocol}-use-ssl-mutual=1", *files], {}, no_file)
    assert getattr(options, f"{protocol}_use_ssl")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(
    ("on", "given", "lacking"),
    [
        ("use-ssl", [], ["server-cert", "server-key"]),
        ("use-ssl", ["server-cert"], ["server-key"]),
        ("use-ssl-mutual", ["server-cert", "server-key"], ["root-cert"]),
    ],
)
def test_tls_without_its_files_is_refused(protocol, on, given, lacking):
    flags = [f"--{protocol}-{on}=true", *(f"--{protocol}-{name}=f" for name in given)]
    with pytest.raises(OptionError) as caught:
        parse_options([REPOSITORY, *flags], {}, no_file)
    needs = ", ".join(f"--{protocol}-{name}" for name in lacking)
    assert f"--{protocol}-{on}" in str(caught.value)
    assert f"TLS needs PEM files: give {needs} as well" in str(caught.value)


def test_tls_files_without_tls_are_ignored():
    options = parse_options([REPOSITORY, "--grpc-server-cert=/no/such"], {}, no_file)
    assert not options.grpc_use_ssl
