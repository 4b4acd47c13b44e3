# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.ModelConfig, which a model's auto_complete_config fills in.

Triton: python_backend/src/resources/triton_python_backend_utils.py ModelConfig
"""

import json
from typing import Any

_REQUIRED = ("name", "data_type", "dims")
_INPUT_PROPERTIES = (*_REQUIRED, "optional")
_SCHEDULERS_IN_THE_WAY = ("sequence_batching", "ensemble_scheduling")


class ModelConfig:
    """A model's config as auto_complete_config sees it.

    Args:
        model_config: The config as JSON, in the form of the config endpoint.
    """

    def __init__(self, model_config: str) -> None:
        self._model_config: dict[str, Any] = json.loads(model_config)

    def as_dict(self) -> dict[str, Any]:
        """Return the config, which must not be changed through the dict."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Set the largest batch.

        Raises:
            ValueError: The config has a larger one.
        """
        configured = self._model_config["max_batch_size"]
        if configured > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but in "
                f"auto-complete-config function for model '{self._name}' specified "
                f"max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Turn dynamic batching on, unless the config already did.

        Raises:
            ValueError: The config has another scheduler.
        """
        for scheduler in _SCHEDULERS_IN_THE_WAY:
            if scheduler in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but "
                    f"auto-complete-config function for model '{self._name}' tries to set "
                    "scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:  # noqa: A002 - Triton's name
        """Add an input, or complete the configured one of this name.

        Args:
            input: ``name``, ``data_type``, ``dims`` and perhaps ``optional``.

        Raises:
            ValueError: A property is missing or unknown, or contradicts the config.
        """
        self._add("input", input, _INPUT_PROPERTIES)

    def add_output(self, output: dict[str, Any]) -> None:
        """Add an output, or complete the configured one of this name.

        Args:
            output: ``name``, ``data_type`` and ``dims``.

        Raises:
            ValueError: A property is missing or unknown, or contradicts the config.
        """
        self._add("output", output, _REQUIRED)

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        """Set whether the model is decoupled.

        Args:
            transaction_policy_dict: ``decoupled`` only.

        Raises:
            ValueError: Another property is given, or the config says otherwise.
        """
        if transaction_policy_dict.keys() - {"decoupled"}:
            raise ValueError(
                f"model transaction property in auto-complete-config function for model "
                f"'{self._name}' contains property other than 'decoupled'."
            )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        wanted = transaction_policy_dict["decoupled"]
        if policy.get("decoupled", wanted) != wanted:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model "
                f"'{self._name}', which is already set to '{policy['decoupled']}'."
            )
        policy["decoupled"] = wanted

    @property
    def _name(self) -> str:
        return str(self._model_config["name"])

    def _add(self, kind: str, given: dict[str, Any], allowed: tuple[str, ...]) -> None:
        self._check_properties(kind, given, allowed)
        for configured in self._model_config[kind]:
            if configured["name"] == given["name"]:
                self._check_agreement(kind, given, configured)
                configured.update(given)
                return
        self._model_config[kind].append(given)

    def _check_properties(self, kind: str, given: dict[str, Any], allowed: tuple[str, ...]) -> None:
        where = f"in auto-complete-config function for model '{self._name}'"
        if given.keys() - set(allowed):
            quoted = [f"'{name}'" for name in allowed]
            names = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
            raise ValueError(
                f"{kind} '{given.get('name', '')}' {where} contains property other than {names}."
            )
        for missing in _REQUIRED:
            if missing not in given:
                which = f"{kind} '{given['name']}'" if "name" in given else kind
                raise ValueError(f"{which} {where} is missing '{missing}' property.")

    def _check_agreement(
        self, kind: str, given: dict[str, Any], configured: dict[str, Any]
    ) -> None:
        name = given["name"]
        if configured["data_type"] not in {"TYPE_INVALID", given["data_type"]}:
            raise ValueError(
                f"unable to load model '{self._name}', configuration expects datatype "
                f"{configured['data_type']} for {kind} '{name}', model provides "
                f"{given['data_type']}"
            )
        for key in ("dims", "optional"):
            is_set = configured.get(key) if key == "dims" else key in configured and key in given
            if is_set and configured[key] != given[key]:
                raise ValueError(
                    f"model '{self._name}', tensor '{name}': the model expects {key} {given[key]} "
                    f"but the model configuration specifies {key} {configured[key]}"
                )
