# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The module of this name in processes that a model has started; models cannot be called there."""

from backends.python.model_side.pb_utils import *  # noqa: F403 - another name of that module
