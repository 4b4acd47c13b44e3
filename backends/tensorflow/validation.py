# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config of TensorFlow's may say.

Triton: tensorflow_backend/src/tensorflow.cc graphdef and savedmodel ValidateTRITONTFModel
"""

from backends.api.datatypes import DATATYPES
from backends.framework.validation import Rules

# TensorFlow has all datatypes there are.
SAVED_MODEL_RULES = Rules(DATATYPES.keys(), allows_optional=True, names_first=True)
# Any placeholder may be an input.
GRAPH_DEF_RULES = Rules(DATATYPES.keys(), needs_every_input=False, allows_optional=True)
