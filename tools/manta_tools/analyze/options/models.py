# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What options say of single models: ``profile_models`` and composing models, and their keys.

Triton: model_analyzer/model_analyzer/config/input/objects/config_model_profile_spec.py @63a0fec
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.options import values
from manta_tools.analyze.options.values import Read


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """One model to measure, or one that is called by such.

    What is empty is as the global option says.

    Attributes:
        name: The model's.
        cpu_only: Whether its instances stay on CPUs.
        batch_sizes: Inferences of a request.
        concurrency: Requests in flight.
        request_rate: Requests a second.
        objectives: Tags and their weights.
        constraints: What a result has to keep.
        weighting: What it counts among models that are measured at once.
        config_parameters: Fields of its config, as YAML has them.
        perf_analyzer_flags: Options of the load generator.
        server_flags: Options of the server.
        server_environment: Environment variables of the server.
    """

    name: str
    cpu_only: bool = False
    batch_sizes: tuple[int, ...] = ()
    concurrency: tuple[int, ...] = ()
    request_rate: tuple[int, ...] = ()
    objectives: tuple[tuple[str, float], ...] = ()
    constraints: tuple[Bound, ...] = ()
    weighting: float = 1.0
    config_parameters: Mapping[str, Any] = field(default_factory=dict)
    perf_analyzer_flags: Mapping[str, Any] = field(default_factory=dict)
    server_flags: Mapping[str, Any] = field(default_factory=dict)
    server_environment: Mapping[str, Any] = field(default_factory=dict)


# Keys of a model in the file: the field, and who reads it.
KEYS: Final[dict[str, tuple[str, Read]]] = {
    "cpu_only": ("cpu_only", values.flag),
    "objectives": ("objectives", values.objectives),
    "constraints": ("constraints", values.constraints),
    "weighting": ("weighting", values.real(0.0)),
    "model_config_parameters": ("config_parameters", values.mapping),
    "perf_analyzer_flags": ("perf_analyzer_flags", values.flags_of_program),
    "triton_server_flags": ("server_flags", values.flags_of_program),
    "triton_server_environment": ("server_environment", values.mapping),
}
# Keys of a model's ``parameters``.
LOADS: Final[dict[str, Read]] = {
    "batch_sizes": values.whole_numbers(1),
    "concurrency": values.whole_numbers(1),
    "request_rate": values.whole_numbers(1),
}
# Keys of a model that have no effect here.
WITHOUT_EFFECT: Final = ("genai_perf_flags", "triton_docker_args")
_PARAMETERS: Final = "parameters"


def models(name: str, given: Any) -> tuple[ProfiledModel, ...]:
    """Read models: names with commas between, a list of names, or names with their keys."""
    if isinstance(given, Mapping):
        return tuple(_model(name, str(key), node) for key, node in given.items())
    if isinstance(given, list):
        found: list[ProfiledModel] = []
        for row in given:
            found += models(name, row) if isinstance(row, Mapping) else [ProfiledModel(str(row))]
        return tuple(found)
    return tuple(map(ProfiledModel, values.words(name, given)))


def ineffective_keys(given: Any) -> list[str]:
    """Return the keys of models that are accepted without effect."""
    nodes = given.values() if isinstance(given, Mapping) else given
    if not isinstance(given, Mapping | list):
        return []
    rows = [node for node in nodes if isinstance(node, Mapping)]
    found = [key for node in rows for key in WITHOUT_EFFECT if key in node]
    if isinstance(given, list):
        for node in rows:
            found += ineffective_keys(node)
    return list(dict.fromkeys(found))


def _model(option: str, name: str, node: Any) -> ProfiledModel:
    where = f"{option}.{name}"
    found: dict[str, Any] = {}
    for key, given in values.mapping(where, {} if node is None else node).items():
        if key == _PARAMETERS:
            found |= _loads(f"{where}.{key}", given)
        elif key in KEYS:
            field_name, read = KEYS[key]
            found[field_name] = read(f"{where}.{key}", given)
        elif key not in WITHOUT_EFFECT:
            raise values.unknown(f"key of '{where}'", key, (*KEYS, _PARAMETERS, *WITHOUT_EFFECT))
    return ProfiledModel(name, **found)


def _loads(where: str, given: Any) -> dict[str, Any]:
    rows = values.mapping(where, given)
    for key in rows:
        if key not in LOADS:
            raise values.unknown(f"key of '{where}'", key, LOADS)
    if len(rows.keys() & {"concurrency", "request_rate"}) > 1:
        raise values.refused(where, rows, "either concurrency or request_rate")
    return {key: LOADS[key](f"{where}.{key}", value) for key, value in rows.items()}
