# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Small forests, built node by node, and the configs that serve them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import treelite
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from backends.api.backend import LoadContext
from tests.support.models import context_of


@dataclass(frozen=True)
class Leaf:
    """A leaf: one number, or one for each class; ``rows`` of the training reached it."""

    value: float | list[float]
    rows: int = 1


@dataclass(frozen=True)
class Split:
    """Left if the feature is below the threshold, or is one of the categories."""

    feature: int
    threshold: float
    left: "Leaf | Split"
    right: "Leaf | Split"
    default_left: bool = False
    categories: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.left.rows + self.right.rows


Node = Leaf | Split
# Above 1.5 on feature 0: 2, else by feature 1.
TREE = Split(0, 1.5, Split(1, 0.0, Leaf(-1.0, 3), Leaf(0.5, 2), default_left=True), Leaf(2.0, 5))


def build(
    trees: list[Node],
    *,
    features: int = 2,
    classes: int = 1,
    task: str = "kRegressor",
    postprocessor: str = "identity",
    double: bool = False,
    average: bool = False,
    vectors: bool = False,
    statistics: bool = True,
    base_scores: list[float] | None = None,
) -> treelite.Model:
    """Return a forest; with several classes trees take turns at them, or have leaf vectors."""
    turns = [-1] * len(trees) if vectors else [index % classes for index in range(len(trees))]
    kind = "float64" if double else "float32"
    builder = ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=Metadata(
            num_feature=features,
            task_type=task,
            average_tree_output=average,
            num_target=1,
            num_class=[classes],
            leaf_vector_shape=(1, classes if vectors else 1),
        ),
        tree_annotation=TreeAnnotation(
            num_tree=len(trees), target_id=[0] * len(trees), class_id=turns
        ),
        postprocessor=PostProcessorFunc(postprocessor),
        base_scores=base_scores or [0.0] * classes,
    )
    for tree in trees:
        building: Any = builder
        building.start_tree()
        _add(builder, tree, statistics)
        building.end_tree()
    return builder.commit()


def _add(builder: Any, tree: Node, statistics: bool) -> None:
    nodes: list[Node] = [tree]
    for key, node in enumerate(nodes):  # grows on the way: breadth first
        builder.start_node(key)
        if isinstance(node, Leaf):
            builder.leaf(node.value)
        else:
            children = {"left_child_key": len(nodes), "right_child_key": len(nodes) + 1}
            nodes += [node.left, node.right]
            if node.categories:
                builder.categorical_test(
                    feature_id=node.feature,
                    category_list=node.categories,
                    category_list_right_child=False,
                    default_left=node.default_left,
                    **children,
                )
            else:
                builder.numerical_test(
                    feature_id=node.feature,
                    threshold=node.threshold,
                    default_left=node.default_left,
                    opname="<",
                    **children,
                )
        if statistics:
            builder.data_count(node.rows)
        builder.end_node()


def config(
    *,
    features: int = 2,
    width: int = 1,
    max_batch_size: int = 64,
    datatype: str = "TYPE_FP32",
    more: str = "",
    **parameters: str,
) -> str:
    """Return the config of model ``m``, which is a checkpoint and a regressor unless said."""
    given = {"model_type": "treelite_checkpoint", "is_classifier": "false", **parameters}
    rows = "" if max_batch_size else "-1, "
    lines = [
        f'name: "m" backend: "fil" max_batch_size: {max_batch_size}',
        f'input {{ name: "input__0" data_type: {datatype} dims: [ {rows}{features} ] }}',
        f'output {{ name: "output__0" data_type: {datatype} dims: [ {rows}{width} ] }}',
        *(
            f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}'
            for key, value in given.items()
            if value
        ),
        more,
    ]
    return "\n".join(lines)


def saved(root: Path, text: str, model: treelite.Model, **fields: object) -> LoadContext:
    """Write a forest as a checkpoint; return what loads it."""
    context = context_of(root, text, **fields)
    model.serialize(context.model_path("checkpoint.tl"))
    return context
