# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config of TensorFlow's may say."""

from backends.api.datatypes import DATATYPES
from backends.framework.validation import Rules

# TensorFlow has all datatypes there are. A SavedModel may have inputs with values of their own.
RULES = Rules(DATATYPES.keys(), needs_every_input=False, allows_optional=True)
