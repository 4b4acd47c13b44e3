# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The data plane: codecs, scheduling, lanes, the instance actor and the ingress."""

import backends  # noqa: F401 - which finds the compiled form
