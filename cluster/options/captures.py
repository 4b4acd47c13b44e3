# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of which requests are kept for later; see `docs/captures.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options.admission import AdmissionOptions

CAPTURES: Final = "Captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions(AdmissionOptions):
    """A part of `cluster.options.table.ServerOptions`."""
