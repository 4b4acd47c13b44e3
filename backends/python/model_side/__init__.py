# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a Python model sees: the module it imports as triton_python_backend_utils."""
