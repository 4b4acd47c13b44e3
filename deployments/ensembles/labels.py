# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Class labels of an ensemble's outputs."""

from deployments.contracts.routing_table import ModelVersion, RoutingTable


def labels_of(table: RoutingTable, entry: ModelVersion) -> dict[str, tuple[str, ...]]:
    """Return an ensemble's class labels by output name.

    An output without a label file of its own has the labels of the output that feeds it: of the
    first step that writes to it, whether that has labels or not.

    Args:
        table: Where the models of the steps are looked up.
        entry: The ensemble's version.

    Triton: core/src/model_repository_manager/model_lifecycle.cc CreateModel @73aad7c
    """
    labels = dict(entry.labels)
    config = entry.config
    if config is None:
        return labels
    missing = {output.name for output in config.output if not labels.get(output.name)}
    for step in config.ensemble_steps:
        fed = {tensor: name for name, tensor in step.output_map.items() if tensor in missing}
        model = table.ready(step.model_key, step.model_version) if fed else None
        of_step = {} if model is None else labels_of(table, model)
        labels |= {tensor: of_step[name] for tensor, name in fed.items() if name in of_step}
        missing -= fed.keys()
    return labels
