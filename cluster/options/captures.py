# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of which requests are kept for later; see `docs/captures.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options.admission import AdmissionOptions
from cluster.options.flag import declared as _flag

CAPTURES: Final = "Captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions(AdmissionOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    capture_config: str = _flag(
        "",
        CAPTURES,
        "YAML file that says which requests are captured, and where to; empty: none.",
    )
    answer_provenance: bool = _flag(
        False,
        CAPTURES,
        "Have every answer name the model's version, digest and rollout arm, and not only those"
        " to requests with the parameter manta_provenance.",
    )
