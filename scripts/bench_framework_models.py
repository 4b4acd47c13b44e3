# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the models of the benchmark of the backends, seeded and without a download.

The networks of all frameworks have the same weights. ``bench_framework_models.py FRAMEWORK SIZE
FILE`` writes one; in a process of its own, as frameworks stay where they were imported.
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_frameworks import FEATURES
from bench_models import mlp_weights, write_mlp

# Width and hidden layers of a network; trees of a forest and their depth.
NETWORKS: Final = {"small": (64, 2), "large": (512, 80), "huge": (2048, 17)}
FORESTS: Final = {"small": (20, 4), "large": (6000, 6)}


def write_onnx(size: str, path: Path) -> None:
    """Write ONNX."""
    write_mlp(path, *NETWORKS[size])


def _torch_module(size: str) -> Any:
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    for values in mlp_weights(*NETWORKS[size]):
        linear = nn.Linear(*values.shape, bias=False)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(values.T))
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers).eval()


def write_torchscript(size: str, path: Path) -> None:
    """Write TorchScript."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(_torch_module(size), torch.zeros(2, FEATURES)).save(str(path))


def write_export(size: str, path: Path) -> None:
    """Write an exported program."""
    import torch

    given = (torch.zeros(2, FEATURES),)
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    program = torch.export.export(_torch_module(size), given, dynamic_shapes=(batch,))
    torch.export.save(program, path)


def write_saved_model(size: str, path: Path) -> None:
    """Write a SavedModel."""
    import tensorflow as tf

    module = tf.Module()
    module.layers = [tf.Variable(values) for values in mlp_weights(*NETWORKS[size])]

    def run(x: Any) -> dict[str, Any]:
        for values in module.layers:
            x = tf.nn.relu(x @ values)
        return {"Y": x}

    rows = tf.TensorSpec([None, FEATURES], tf.float32, name="X")
    module.run = tf.function(run, input_signature=[rows])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.run})


def write_ir(size: str, path: Path) -> None:
    """Write OpenVINO's own format."""
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "model.onnx")
        write_onnx(size, given)
        openvino.save_model(openvino.convert_model(given), path, compress_to_fp16=False)


def write_forest(size: str, path: Path) -> None:
    """Write a checkpoint of Treelite: full trees with random features, thresholds and leaves."""
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    trees, depth = FORESTS[size]
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    random = np.random.default_rng(0)
    features = random.integers(0, FEATURES, (trees, inner)).tolist()
    values: list[list[float]] = random.random((trees, nodes)).tolist()
    builder = ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=Metadata(
            num_feature=FEATURES,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=trees, target_id=[0] * trees, class_id=[0] * trees),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.0],
    )
    for tree in range(trees):
        builder.start_tree()
        for node in range(nodes):
            builder.start_node(node)
            if node < inner:
                builder.numerical_test(
                    feature_id=features[tree][node],
                    threshold=values[tree][node],
                    default_left=True,
                    opname="<",
                    left_child_key=2 * node + 1,
                    right_child_key=2 * node + 2,
                )
            else:
                builder.leaf(values[tree][node])
            builder.end_node()
        builder.end_tree()
    builder.commit().serialize(str(path))


WRITERS: Final[dict[str, Callable[[str, Path], None]]] = {
    "onnxruntime": write_onnx,
    "torchscript": write_torchscript,
    "pt2": write_export,
    "tensorflow": write_saved_model,
    "savedmodel-openvino": write_saved_model,
    "openvino": write_ir,
    "fil": write_forest,
}


def main() -> None:
    framework, size, path = sys.argv[1:]
    WRITERS[framework](size, Path(path))


if __name__ == "__main__":
    main()
