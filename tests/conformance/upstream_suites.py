# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's own tests: which cases run against which models and flags.

Models, flags and environment are those of the test.sh beside each program.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases of one program that one server answers.

    Attributes:
        title: Name in the table.
        program: Path under qa.
        models: Keys of upstream_models.MODELS.
        flags: Of the server.
        cases: CLASS or CLASS.CASE, each; empty for all of the program.
        client_type: Environment variable CLIENT_TYPE, which some programs read.
        anew: What is undone between two cases, each then a process of its own: regions (of
            shared memory), models (they are reloaded, which resets their statistics) or nothing.
        package: What the program imports that Manta's test extra does not hold.
        timeout_s: Bound of a process.
        environment: Further variables of the program.
        server_environment: Variables of the server, and of the program.
        verifier: A program under qa, and its arguments, that reads the traces of an ended server.
    """

    title: str
    program: str
    models: tuple[str, ...]
    flags: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    client_type: str = ""
    anew: str = ""
    package: str = ""
    timeout_s: float = 300.0
    environment: tuple[tuple[str, str], ...] = ()
    server_environment: tuple[tuple[str, str], ...] = ()
    verifier: tuple[str, ...] = ()


EXPLICIT: Final = ("--model-control-mode=explicit", "--load-model=*")
_SHARED_MEMORY: Final = ("--allow-client-shm=true",)

_EXAMPLES: Final = (
    "simple",
    "simple_int8",
    "simple_string",
    "simple_identity",
    "simple_sequence",
    "simple_dyna_sequence",
    "densenet_onnx",
)

_HTTP: Final = (
    Suite(
        "http",
        "L0_http/http_test.py",
        (
            "onnx_zero_1_float32",
            "onnx_zero_1_object",
            "onnx_zero_1_float16",
            "onnx_zero_3_float32",
            "onnx_zero_1_object_1_element",
            "onnx_zero_1_float32_queue",
            "simple_identity",
            "simple_identity_int64",
        ),
        EXPLICIT,
    ),
    Suite(
        "generate",
        "L0_http/generate_endpoint_test.py",
        ("mock_llm",),
        package="sseclient",
    ),
    Suite("http_aio", "L0_http/python_http_aio_test.py", _EXAMPLES, _SHARED_MEMORY),
    Suite(
        "http_restricted",
        "L0_http/http_restricted_api_test.py",
        ("simple",),
        (
            "--http-restricted-api=model-repository:admin-key=admin-value",
            "--http-restricted-api=inference,metadata:infer-key=infer-value",
        ),
    ),
    Suite(
        "http_size",
        "L0_http/http_input_size_limit_test.py",
        ("onnx_zero_1_float32", "simple_identity"),
        cases=tuple(
            f"InferSizeLimitTest.{case}"
            for case in (
                "test_default_limit_raw_binary",
                "test_default_limit_json",
                "test_large_string_in_json",
                "test_default_limit_compressed",
                "test_json_dtype_size_expansion_exceeds_limit_error",
                "test_no_leak_on_invalid_inference_header_length",
            )
        ),
    ),
    Suite(
        "http_size, 128 MiB",
        "L0_http/http_input_size_limit_test.py",
        ("onnx_zero_1_float32", "simple_identity"),
        (f"--http-max-input-size={2**27}",),
        tuple(
            f"InferSizeLimitTest.test_large_input_{kind}"
            for kind in ("raw_binary", "json", "compressed")
        ),
    ),
    Suite(
        "http_chunks",
        "L0_http/http_request_many_chunks.py",
        ("simple",),
        (*_SHARED_MEMORY, "--model-control-mode=explicit", "--load-model=simple"),
        timeout_s=900.0,
    ),
)
_GRPC: Final = (
    Suite(
        "grpc_aio",
        "L0_grpc/python_grpc_aio_test.py",
        (*_EXAMPLES, "simple_string_dyna_sequence"),
        _SHARED_MEMORY,
    ),
    Suite(
        "grpc_unit", "L0_grpc/python_unit_test.py", ("simple", "string_identity"), (), ("GrpcTest",)
    ),
    Suite(
        "grpc_unit, restricted",
        "L0_grpc/python_unit_test.py",
        ("simple",),
        (
            "--grpc-restricted-protocol=model-repository:admin-key=admin-value",
            "--grpc-restricted-protocol=inference,health:infer-key=infer-value",
        ),
        ("RestrictedProtocolTest",),
    ),
)

_SHARED_MEMORY_CASES: Final = tuple(
    f"SharedMemoryTest.test_{case}"
    for case in (
        "invalid_create_shm",
        "valid_create_set_register",
        "unregister_before_register",
        "unregister_after_register",
        "reregister_after_register",
        "unregister_after_inference",
        "register_after_inference",
        "too_big_shm",
        "mixed_raw_shm",
        "unregisterall",
        "infer_offset_out_of_bound",
        "infer_byte_size_out_of_bound",
        "infer_integer_overflow",
        "register_out_of_bound",
        "register_reserved_names",
        "register_invalid_shm_key",
    )
)
_UNREGISTER_CASES: Final = (
    "during_inference_single_req",
    "during_inference_multiple_req",
    "after_inference",
)


def _shared_memory(client_type: str) -> tuple[Suite, ...]:
    program = "L0_shared_memory/shared_memory_test.py"
    return (
        Suite(
            f"shm {client_type}, off",
            program,
            ("simple",),
            cases=("SharedMemoryTest.test_client_shm_disabled_by_default",),
            client_type=client_type,
        ),
        Suite(
            f"shm {client_type}",
            program,
            ("simple",),
            _SHARED_MEMORY,
            _SHARED_MEMORY_CASES,
            client_type,
            anew="regions",
        ),
        Suite(
            f"shm {client_type}, in use",
            program,
            ("slow simple",),
            _SHARED_MEMORY,
            tuple(
                f"TestSharedMemoryUnregister.test_unregister_shm_{case}_{client_type}"
                for case in _UNREGISTER_CASES
            ),
            client_type,
            anew="regions",
        ),
    )


def _parameters(title: str, cases: tuple[str, ...], *flags: str) -> Suite:
    names = tuple(f"InferenceParametersTest.test_{case}" for case in cases)
    models = ("identity", "parameter", "ensemble")
    return Suite(title, "L0_parameters/parameters_test.py", models, flags, names)


_PARAMETERS: Final = (
    _parameters("params", ("params", "params_reserved_rejected")),
    _parameters(
        "params, headers",
        ("headers",),
        "--grpc-header-forward-pattern=MY_HEADER.*",
        "--http-header-forward-pattern=MY_HEADER.*",
    ),
    _parameters(
        "params, case",
        ("grpc_header_forward_pattern_case_sensitive",),
        "--grpc-header-forward-pattern=(?-i)MY_HEADER.*",
    ),
    _parameters(
        "params, all headers",
        ("headers_reserved_rejected",),
        "--grpc-header-forward-pattern=.*",
        "--http-header-forward-pattern=.*",
    ),
    *(
        Suite(
            f"class_count {client_type}",
            "L0_parameters/class_count_test.py",
            ("identity_fp32", "identity_bytes"),
            client_type=client_type,
        )
        for client_type in ("http", "grpc")
    ),
)

_VALIDATION_PROGRAM: Final = "L0_input_validation/input_validation_test.py"
_VALIDATION: Final = (
    Suite(
        "validation",
        _VALIDATION_PROGRAM,
        (
            "input_all_required",
            "input_optional",
            "input_all_optional",
            "pt_identity",
            "onnx_object_int32_int32",
        ),
        _SHARED_MEMORY,
        (
            "InputValTest",
            "InputShapeTest.test_input_shape_validation",
            "InputShapeTest.test_input_string_shape_validation",
        ),
    ),
    Suite(
        "validation, names",
        _VALIDATION_PROGRAM,
        (),
        ("--model-control-mode=explicit",),
        ("ModelNameValidationTest",),
    ),
)

_SETTINGS: Final = (
    Suite(
        "trace",
        "L0_trace/trace_endpoint_test.py",
        ("simple",),
        (
            "--trace-config=triton,file=global_unittest.log",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=1",
        ),
    ),
    Suite("logging", "L0_logging/logging_endpoint_test.py", ("simple",)),
)

_OPTIONAL: Final = Suite(
    "optional",
    "L0_optional_input/optional_input_test.py",
    (
        "identity_2_float32",
        "optional_identity",
        "ensemble_identity_2_float32",
        "pipeline_identity_2_float32",
        "optional_connecting_tensor",
    ),
    EXPLICIT,
    tuple(
        f"OptionalInputTest.test_{case}"
        for case in (
            "all_inputs",
            "optional_same_input",
            "optional_mix_inputs",
            "optional_mix_inputs_2",
            "ensemble_all_inputs",
            "ensemble_optional_same_input",
            "ensemble_optional_mix_inputs",
            "ensemble_optional_mix_inputs_2",
            "ensemble_optional_pipeline",
            "ensemble_optional_connecting_tensor",
        )
    ),
    anew="models",
)

SUITES: Final = (
    *_HTTP,
    *_GRPC,
    *_shared_memory("http"),
    *_shared_memory("grpc"),
    *_PARAMETERS,
    *_VALIDATION,
    *_SETTINGS,
    _OPTIONAL,
)

NOT_RUN: Final = {
    "shm, test_python_client_leak": "measures the client alone",
    "shm, test_large_shm_register_offset": "needs models of five backends",
    "validation, test_wrong_input_shape_tensor_size": "needs TensorRT engines",
}
