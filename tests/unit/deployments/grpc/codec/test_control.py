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


def test_metadata_are_those_of_http_and_what_grpc_has_not_is_left_out():
    server = {"name": "manta", "version": "1", "extensions": ["sequence"]}
    read = service_pb2.ServerMetadataResponse.FromString(codec.render_server_metadata(server))
    assert (read.name, read.version, list(read.extensions)) == ("manta", "1", ["sequence"])
    inputs = [{"name": "I", "datatype": "FP32", "shape": ["-1", "4"]}]
    model = {"name": "m", "versions": ["1", "2"], "platform": "p", "inputs": inputs, "more": 1}
    found = service_pb2.ModelMetadataResponse.FromString(codec.render_model_metadata(model))
    assert (found.name, list(found.versions), found.platform) == ("m", ["1", "2"], "p")
    assert [(each.name, each.datatype, list(each.shape)) for each in found.inputs] == [
        ("I", "FP32", [-1, 4])
    ]


def test_statistics_are_those_of_http_and_what_grpc_has_not_is_left_out():
    row = {"name": "m", "version": "1", "inference_count": 3, "more": {"a": 1}}
    rendered = codec.render_statistics({"model_stats": [row], "else": 1})
    (found,) = service_pb2.ModelStatisticsResponse.FromString(rendered).model_stats
    assert (found.name, found.version, found.inference_count) == ("m", "1", 3)


def test_a_row_of_the_index_has_what_is_known_of_the_model():
    rows = [{"name": "a", "version": "1", "state": "UNAVAILABLE", "reason": "why"}, {"name": "b"}]
    found = service_pb2.RepositoryIndexResponse.FromString(codec.render_index(rows)).models
    assert [(each.name, each.version, each.state, each.reason) for each in found] == [
        ("a", "1", "UNAVAILABLE", "why"),
        ("b", "", "", ""),
    ]


def test_an_unload_says_whether_its_parts_are_unloaded_too():
    request = service_pb2.RepositoryModelUnloadRequest(model_name="m")
    assert not codec.unload_dependents(request)
    for value in (True, False):
        request.parameters["unload_dependents"].bool_param = value
        assert codec.unload_dependents(request) is value
