# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The classes of the messages of the protocol, as modules that are generated have them."""

from typing import Any, Final

from backends.config.protocol_messages import CONFIG, REFLECTION, SERVICE, messages_of

model_config_pb2: Final[Any] = messages_of(CONFIG)
reflection_pb2: Final[Any] = messages_of(REFLECTION)
service_pb2: Final[Any] = messages_of(SERVICE)
