# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol's messages apart from those that other code of the process makes."""

import subprocess
import sys

import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from backends.config.protocol_messages import CONFIG, SERVICE, messages_of

# A client's generated classes after ours, of another edition of the protocol.
MODEL = """
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from cluster.fork_server.imported import WORKERS, import_all
from backends.config.pbtxt import parse_pbtxt, to_pbtxt

import_all(WORKERS)
file = descriptor_pb2.FileDescriptorProto(name="kserve.proto", package="inference")
for name in ("ModelInferRequest", "ModelConfig", "ModelInferResponse"):
    file.message_type.add(name=name).field.add(name="mine", number=1, type=9, label=1)
pool = descriptor_pool.Default()
pool.AddSerializedFile(file.SerializeToString())
Request = message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelInferRequest"))
assert Request(mine="x").mine == "x"
assert to_pbtxt(parse_pbtxt('name: "m"', "config.pbtxt")).strip() == 'name: "m"'
print("tritonclient.grpc" in sys.modules)
"""


def test_a_models_own_classes_of_the_protocol_find_room_beside_ours():
    done = subprocess.run(
        [sys.executable, "-c", MODEL], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


@pytest.mark.parametrize(("file", "module"), [(CONFIG, model_config_pb2), (SERVICE, service_pb2)])
def test_they_are_those_of_tritonclient(file, module):
    found = messages_of(file)
    assert found.DESCRIPTOR.serialized_pb == module.DESCRIPTOR.serialized_pb
    for name in module.DESCRIPTOR.message_types_by_name:
        assert getattr(found, name).DESCRIPTOR.full_name == f"inference.{name}"
        assert getattr(found, name) is not getattr(module, name)


def test_messages_of_one_file_are_those_in_another():
    config = messages_of(CONFIG).ModelConfig(name="m")
    response = messages_of(SERVICE).ModelConfigResponse(config=config)
    read = service_pb2.ModelConfigResponse.FromString(response.SerializeToString())
    assert read.config.name == "m"


def test_a_file_without_descriptors_is_told():
    with pytest.raises(ImportError, match="has no descriptor"):
        messages_of("tritonclient/__init__.py")
