# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of what is refused under overload; see `docs/overload.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options.access import AccessOptions

ADMISSION: Final = "Admission"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions(AccessOptions):
    """A part of `cluster.options.table.ServerOptions`."""
