# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From a setting to the config of a variant, and to its name.

Triton: model_analyzer/model_analyzer/config/generate/model_variant_name_manager.py,
base_model_config_generator.py @63a0fec
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit, to_json, to_pbtxt
from manta_tools.analyze.records import Candidate, Setting
from manta_tools.analyze.space.fields import assign
from manta_tools.analyze.space.product import MAX_BATCH_SIZE

_PREFERRED: Final = "preferred_batch_size"


def variant(
    config: ModelConfig,
    setting: Setting,
    *,
    name: str = "",
    steps: Mapping[str, str] | None = None,
) -> ModelConfig:
    """Return a model's config with a setting.

    A changed ``max_batch_size`` takes preferred sizes and larger warm-up batches with it, unless
    the setting gives the former: they were chosen for the old one, and would not load.

    Args:
        config: What the repository, or the server, says.
        setting: The fields that change.
        name: The variant's name; empty keeps the model's.
        steps: Names of variants by the models that an ensemble calls.

    Raises:
        InvalidArgumentError: A field is unknown, or does not take its value.
    """

    def change(message: Any) -> None:
        has_new_batches = any(field == MAX_BATCH_SIZE for field, _ in setting.values)
        if has_new_batches:
            _forget_preferred(message)
        assign(message, setting.values)
        for sample in message.model_warmup if has_new_batches else ():
            sample.batch_size = min(sample.batch_size, message.max_batch_size)
        message.name = name or message.name
        for step in message.ensemble_scheduling.step if steps else ():
            step.model_name = (steps or {}).get(step.model_name, step.model_name)

    return edit(config, change)


def load_config(config: ModelConfig) -> str:
    """Return a config as the repository API's load takes it in ``parameters.config``."""
    return to_json(config).decode()


def config_text(config: ModelConfig) -> str:
    """Return a config as a config.pbtxt."""
    return to_pbtxt(config)


class VariantNames:
    """Names the variants of models: ``<model>_config_<n>``, or ``<model>_config_default``.

    Numbers are given in the order in which variants are asked for, so the same search names them
    alike. A model that calls others is another variant with each other variant of these.

    Args:
        composing: By model, the models that it calls.
    """

    def __init__(self, composing: Mapping[str, Sequence[str]] | None = None) -> None:
        self._composing = composing or {}
        self._known: dict[tuple[Setting, ...], str] = {}
        self._counts: dict[str, int] = {}

    def names(self, candidate: Candidate) -> dict[str, str]:
        """Return the names of all variants of a candidate, by model."""
        settings = {setting.model: setting for setting in candidate.settings}
        return {
            model: self._name(tuple(settings[each] for each in self._with_called(model, settings)))
            for model in settings
        }

    def _name(self, settings: tuple[Setting, ...]) -> str:
        """Return the name of the variant of the first model, which calls the others."""
        model = settings[0].model
        if not any(each.values for each in settings):
            return f"{model}_config_default"
        if settings not in self._known:
            count = self._counts.get(model, 0)
            self._counts[model] = count + 1
            self._known[settings] = f"{model}_config_{count}"
        return self._known[settings]

    def _with_called(self, model: str, known: Collection[str]) -> list[str]:
        """Return a model, those that it calls, and those that these call."""
        models = [model]
        for each in models:
            models += [
                called
                for called in self._composing.get(each, ())
                if called in known and called not in models
            ]
        return models


def _forget_preferred(message: Any) -> None:
    if message.HasField("dynamic_batching"):
        message.dynamic_batching.ClearField(_PREFERRED)
    if message.HasField("sequence_batching") and message.sequence_batching.HasField("oldest"):
        message.sequence_batching.oldest.ClearField(_PREFERRED)
