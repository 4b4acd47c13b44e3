# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Execution: runs one model in this process; no Ray, no sockets."""

from backends import compiled_form

compiled_form.install()
