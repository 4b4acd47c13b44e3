# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of the protocol, in a pool of their own.

Their descriptors are those that tritonclient brings. Its classes are not used: they would lie in
the one pool that a process has for all generated code, where a model's own classes of the protocol
must find room. Nor is it imported, which takes 0.3 s.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

CONFIG: Final = "tritonclient/grpc/model_config_pb2.py"
SERVICE: Final = "tritonclient/grpc/service_pb2.py"
REFLECTION: Final = "grpc_reflection/v1alpha/reflection_pb2.py"
_IMPORTED: Final = {SERVICE: (CONFIG,)}


@cache
def messages_of(file: str) -> Any:
    """Return what a generated module has: messages and enums by name, and ``DESCRIPTOR``.

    Args:
        file: The module, as a path from where packages are installed.
    """
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415 - costly
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper  # noqa: PLC0415

    imported = [messages_of(each) for each in _IMPORTED.get(file, ())]
    pool = imported[0].pool if imported else descriptor_pool.DescriptorPool()
    descriptor = pool.AddSerializedFile(_serialized(file))
    messages = {
        name: message_factory.GetMessageClass(each)
        for name, each in descriptor.message_types_by_name.items()
    }
    enums = {name: EnumTypeWrapper(each) for name, each in descriptor.enum_types_by_name.items()}
    return SimpleNamespace(pool=pool, DESCRIPTOR=descriptor, **messages, **enums)


def _serialized(file: str) -> bytes:
    """Return the serialised descriptor that a generated module adds to its pool.

    Raises:
        ImportError: There is none.
    """
    package, _, rest = file.partition("/")
    spec = find_spec(package)
    for place in () if spec is None else spec.submodule_search_locations or ():
        path = Path(place, rest)
        for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="AddSerializedFile"),
                    args=[ast.Constant(value=bytes(found))],
                ):
                    return found
    raise ImportError(f"{file} has no descriptor of its messages")
