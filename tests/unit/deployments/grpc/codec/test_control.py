# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the RPCs other than inference."""

import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from deployments.grpc.codec import control as codec


def load_request(**parameters):
    request = service_pb2.RepositoryModelLoadRequest(model_name="m")
    for key, (kind, value) in parameters.items():
        setattr(request.parameters[key], kind, value)
    return request


def refusal(request):
    with pytest.raises(InvalidArgumentError) as caught:
        codec.load_parameters(request)
    return caught.value.message


def test_config_is_spliced_in_as_it_is():
    config = model_config_pb2.ModelConfig(name="m" * 300, max_batch_size=4)
    rendered = codec.render_model_config(config.SerializeToString())
    assert service_pb2.ModelConfigResponse.FromString(rendered).config == config


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("message", "field"),
    [("ServerLive", "live"), ("ServerReady", "ready"), ("ModelReady", "ready")],
)
def test_flag_fits_all_health_responses(message, field, value):
    response = getattr(service_pb2, f"{message}Response")
    assert getattr(response.FromString(codec.render_flag(value=value)), field) is value


def test_config_override_must_be_text():
    text = "invalid value type for load parameter 'config', expected string_param."
    assert refusal(load_request(config=("int64_param", 5))) == text


def test_file_override_must_be_bytes():
    request = load_request(**{"file:1/model.py": ("string_param", "x")})
    expected = "invalid value type for load parameter 'file:1/model.py', expected bytes_param."
    assert refusal(request) == expected


def test_unknown_load_parameter_is_invalid():
    request = load_request(foo=("string_param", "x"))
    assert refusal(request) == "unrecognized load parameter 'foo'."


def test_unload_dependents_must_be_bool():
    request = service_pb2.RepositoryModelUnloadRequest()
    assert codec.unload_dependents(request) is False
    request.parameters["unload_dependents"].int64_param = 1
    with pytest.raises(InvalidArgumentError, match="expected bool_param"):
        codec.unload_dependents(request)


def test_repository_name_is_unsupported():
    with pytest.raises(UnsupportedError, match="'repository_name' specification is not supported"):
        codec.check_repository(service_pb2.RepositoryIndexRequest(repository_name="x"))


def test_malformed_request_is_internal():
    with pytest.raises(InternalError, match="Unable to parse request"):
        codec.parse("ServerLive", b"\xff\xff\xff")
