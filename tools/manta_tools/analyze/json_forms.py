# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Records as JSON objects, and back; a checkpoint is made of them."""

from collections.abc import Mapping
from typing import Any

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial


def to_json(measured: Measured) -> dict[str, Any]:
    """Return a measurement as what `json.dumps` takes; `from_json` reads it back."""
    trial = measured.trial
    return {
        "trial": {
            "candidate": [
                {"model": each.model, "values": [list(pair) for pair in each.values]}
                for each in trial.candidate.settings
            ],
            "loads": [
                {
                    "model": load.model,
                    "kind": load.kind,
                    "level": load.level,
                    "batch_size": load.batch_size,
                }
                for load in trial.loads
            ],
            "budget": trial.budget,
        },
        "metrics": {model: dict(metrics) for model, metrics in measured.metrics.items()},
        "gpu_metrics": {gpu: dict(metrics) for gpu, metrics in measured.gpu_metrics.items()},
        "is_stable": measured.is_stable,
        "error": measured.error,
    }


def from_json(tree: Mapping[str, Any]) -> Measured:
    """Read a measurement.

    Raises:
        InvalidArgumentError: Something is missing, or is not what it should be.
    """
    try:
        trial = tree["trial"]
        candidate = Candidate(
            tuple(
                Setting(each["model"], tuple((field, value) for field, value in each["values"]))
                for each in trial["candidate"]
            )
        )
        loads = tuple(
            Load(each["model"], each["kind"], each["level"], each["batch_size"])
            for each in trial["loads"]
        )
        return Measured(
            Trial(candidate, loads, trial["budget"]),
            {model: dict(metrics) for model, metrics in tree["metrics"].items()},
            is_stable=tree["is_stable"],
            error=tree["error"],
            gpu_metrics={gpu: dict(metrics) for gpu, metrics in tree["gpu_metrics"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(
            f"a record of a checkpoint is no measurement ({type(error).__name__}: {error}), "
            "expected what a checkpoint of this release holds; remove the checkpoint"
        ) from None
