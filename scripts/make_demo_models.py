# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the demo model repository: seeded, without downloads, in a few seconds.

    python scripts/make_demo_models.py [--output configs/models]

Models that are there already are replaced; other directories are left alone.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SEED = 20260101
OPSET = 17
IR_VERSION = 8
HELD_OUT_FRACTION = 0.25

Array = npt.NDArray[Any]


_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def held_out_digits() -> tuple[Array, Array]:
    """Return images FP32[n, 64] and labels INT64[n] that the digits model never saw."""
    _, images, _, labels = split_digits()
    return images, labels


def split_digits() -> tuple[Array, Array, Array, Array]:
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images.astype(np.float32),
        labels.astype(np.int64),
        test_size=HELD_OUT_FRACTION,
        random_state=SEED % 2**32,
        stratify=labels,
    )
    return tuple(parts)  # type: ignore[return-value]


def make_digits(directory: Path) -> str:
    """A classifier of 8 x 8 images of handwritten digits, trained here."""
    images, _, labels, _ = split_digits()
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
    classifier.fit(images, labels)
    model = to_onnx(
        classifier, images[:1], options={"zipmap": False}, target_opset={"": OPSET, "ai.onnx.ml": 3}
    )
    _add_label_dimension(model)
    write_model(
        directory,
        """
        name: "digits"
        platform: "onnxruntime_onnx"
        max_batch_size: 64
        input { name: "X" data_type: TYPE_FP32 dims: [ 64 ] }
        output { name: "label" data_type: TYPE_INT64 dims: [ 1 ] }
        output {
          name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] label_filename: "digits.txt"
        }
        dynamic_batching { max_queue_delay_microseconds: 200 }
        """,
    )
    (directory / "digits.txt").write_text("\n".join(_DIGIT_NAMES) + "\n")
    path = directory / "1" / "model.onnx"
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    held_images, held_labels = held_out_digits()
    predicted = session.run(["label"], {"X": held_images})[0]
    accuracy = float((predicted[:, 0] == held_labels).mean())
    return f"accuracy {accuracy:.4f} on {len(held_labels)} held-out images"


def _add_label_dimension(model: Any) -> None:
    """Make the label INT64[n, 1] instead of INT64[n], so that it has a dimension per item."""
    for node in model.graph.node:
        node.output[:] = ["flat_label" if name == "label" else name for name in node.output]
    axes = helper.make_tensor("label_axes", TensorProto.INT64, [1], [1])
    model.graph.initializer.append(axes)
    model.graph.node.append(helper.make_node("Unsqueeze", ["flat_label", "label_axes"], ["label"]))
    for output in model.graph.output:
        if output.name == "label":
            output.CopyFrom(helper.make_tensor_value_info("label", TensorProto.INT64, ["n", 1]))


def make_simple(directory: Path) -> str:
    """Triton's "simple": sum and difference of two vectors, as ONNX."""
    shape = ["batch", 16]
    tensors = {
        name: helper.make_tensor_value_info(name, TensorProto.INT32, shape)
        for name in ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")
    }
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        "simple",
        [tensors["INPUT0"], tensors["INPUT1"]],
        [tensors["OUTPUT0"], tensors["OUTPUT1"]],
    )
    write_model(
        directory,
        """
        name: "simple"
        platform: "onnxruntime_onnx"
        max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }
        input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
        output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] }
        output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
        dynamic_batching { }
        """,
    )
    _save_graph(graph, directory / "1" / "model.onnx")
    return "INT32[16] INPUT0, INPUT1 -> sum, difference"


SIMPLE_STRING = '''
"""Sum and difference of decimal numbers written as strings."""

import numpy as np
import triton_python_backend_utils as pb_utils


def numbers(request, name):
    texts = pb_utils.get_input_tensor_by_name(request, name).as_numpy()
    return np.array([int(text) for text in texts.ravel()]).reshape(texts.shape)


def tensor(name, values):
    texts = np.array([str(value).encode() for value in values.ravel()], dtype=np.object_)
    return pb_utils.Tensor(name, texts.reshape(values.shape))


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            try:
                first, second = numbers(request, "INPUT0"), numbers(request, "INPUT1")
            except ValueError as error:
                refusal = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], refusal))
                continue
            outputs = [tensor("OUTPUT0", first + second), tensor("OUTPUT1", first - second)]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
'''

IDENTITY = '''
"""OUTPUT0 repeats INPUT0."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            output = pb_utils.Tensor("OUTPUT0", given.as_numpy())
            responses.append(pb_utils.InferenceResponse([output]))
        return responses
'''


def make_simple_string(directory: Path) -> str:
    """Triton's "simple_string", in Python."""
    write_model(
        directory,
        """
        name: "simple_string"
        backend: "python"
        max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_STRING dims: [ 16 ] }
        input { name: "INPUT1" data_type: TYPE_STRING dims: [ 16 ] }
        output { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 16 ] }
        output { name: "OUTPUT1" data_type: TYPE_STRING dims: [ 16 ] }
        instance_group { count: 1 kind: KIND_CPU }
        """,
        source=SIMPLE_STRING,
    )
    return "BYTES[16] decimal numbers -> sum, difference"


def make_simple_identity(directory: Path) -> str:
    """Triton's "simple_identity", in Python."""
    write_model(
        directory,
        """
        name: "simple_identity"
        backend: "python"
        max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_STRING dims: [ -1 ] }
        output { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] }
        instance_group { count: 1 kind: KIND_CPU }
        """,
        source=IDENTITY,
    )
    return "BYTES[-1] INPUT0 -> OUTPUT0"


def make_identity_fp32(directory: Path) -> str:
    """The identity_fp32 of Triton's tests, in Python."""
    write_model(
        directory,
        """
        name: "identity_fp32"
        backend: "python"
        max_batch_size: 64
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
        instance_group { count: 1 kind: KIND_CPU }
        """,
        source=IDENTITY,
    )
    return "FP32[-1] INPUT0 -> OUTPUT0"


# (output channels, stride) of the 3 x 3 convolutions, each followed by a ReLU: together the 2.8
# billion multiplications of DenseNet-121.
_CONVOLUTIONS = (
    (32, 2),
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (256, 1),
    (512, 2),
    (512, 1),
)
_CLASSES = 1000


def make_densenet_shaped(directory: Path) -> str:
    """An image network with random weights: the cost of a real one, the answers of none."""
    random = np.random.default_rng(SEED)
    nodes, weights = [], []

    def weight(name: str, shape: tuple[int, ...], fan_in: int) -> str:
        values = random.standard_normal(shape, dtype=np.float32) * np.sqrt(2.0 / fan_in)
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    tensor, channels = "data_0", 3
    for index, (out_channels, stride) in enumerate(_CONVOLUTIONS):
        kernel = weight(f"w{index}", (out_channels, channels, 3, 3), channels * 9)
        convolution = helper.make_node(
            "Conv",
            [tensor, kernel],
            [f"c{index}"],
            kernel_shape=[3, 3],
            strides=[stride, stride],
            pads=[1, 1, 1, 1],
        )
        nodes += [convolution, helper.make_node("Relu", [f"c{index}"], [f"r{index}"])]
        tensor, channels = f"r{index}", out_channels
    nodes += [
        helper.make_node("GlobalAveragePool", [tensor], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"], axis=1),
        helper.make_node(
            "MatMul", ["features", weight("head", (channels, _CLASSES), channels)], ["fc6_1"]
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "densenet_shaped",
        [helper.make_tensor_value_info("data_0", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("fc6_1", TensorProto.FLOAT, ["batch", _CLASSES])],
        weights,
    )
    write_model(
        directory,
        """
        name: "densenet_shaped"
        platform: "onnxruntime_onnx"
        max_batch_size: 8
        input { name: "data_0" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] }
        output { name: "fc6_1" data_type: TYPE_FP32 dims: [ 1000 ] }
        dynamic_batching { }
        """,
    )
    path = directory / "1" / "model.onnx"
    _save_graph(graph, path)
    return f"FP32[3, 224, 224] -> FP32[1000], {path.stat().st_size / 1e6:.1f} MB of random weights"


# Models that need no making: their directories are beside this script.
_READY_MADE = Path(__file__).parent / "demo_models"


def _copy_of(name: str, text: str) -> Callable[[Path], str]:
    def make(directory: Path) -> str:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(_READY_MADE / name, directory)
        return text

    return make


def _save_graph(graph: Any, path: Path) -> None:
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def write_model(directory: Path, config: str, *, source: str | None = None) -> None:
    """Start a model's directory anew with its config, and its model.py if it has one."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "1").mkdir(parents=True)
    lines = [line[8:] for line in config.strip("\n").splitlines()]
    (directory / "config.pbtxt").write_text("\n".join(lines).rstrip() + "\n")
    if source is not None:
        (directory / "1" / "model.py").write_text(source.lstrip("\n"))


MODELS: dict[str, Callable[[Path], str]] = {
    "densenet_shaped": make_densenet_shaped,
    "digits": make_digits,
    "digits_decode": _copy_of("digits_decode", "BYTES[1] PNG -> FP32[64] pixels"),
    "digits_name": _copy_of("digits_name", "INT64[1] label -> BYTES[1] name"),
    "digits_png": _copy_of("digits_png", "ensemble of digits_decode, digits and digits_name"),
    "digits_png_bls": _copy_of("digits_png_bls", "the same, called from a Python model"),
    "identity_fp32": make_identity_fp32,
    "simple": make_simple,
    "simple_identity": make_simple_identity,
    "simple_string": make_simple_string,
}


def make_all(output: Path) -> None:
    """Write every demo model below ``output``."""
    for name, make in MODELS.items():
        print(f"{name}: {make(output / name)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the demo model repository.")
    parser.add_argument("--output", type=Path, default=Path("configs/models"), metavar="DIR")
    make_all(parser.parse_args().output)


if __name__ == "__main__":
    main()
