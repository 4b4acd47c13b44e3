# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a naive Bayes classifier on a dozen reviews; writes its vocabulary and its ONNX file."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NEGATIVE = """a dull and boring film
the plot is a mess and the acting is awful
i hated every minute of it
a terrible waste of time
boring characters and a weak story
the worst film of the year"""
POSITIVE = """a wonderful and moving film
the plot is clever and the acting is great
i loved every minute of it
a brilliant use of music
great characters and a strong story
the best film of the year"""

counts = [Counter(reviews.split()) for reviews in (NEGATIVE, POSITIVE)]
words = sorted(counts[0] | counts[1])
# Row 0 is for padding and words that are not known.
weights = np.zeros((len(words) + 1, 2), np.float32)
weights[1:] = [[np.log(count[word] + 1) for count in counts] for word in words]

graph = helper.make_graph(
    [
        helper.make_node("Gather", ["weights", "IDS"], ["rows"]),
        helper.make_node("ReduceSum", ["rows", "axis"], ["scores"], keepdims=0),
        helper.make_node("Softmax", ["scores"], ["PROBABILITIES"]),
    ],
    "sentiment_classifier",
    [helper.make_tensor_value_info("IDS", TensorProto.INT64, ["batch", 16])],
    [helper.make_tensor_value_info("PROBABILITIES", TensorProto.FLOAT, ["batch", 2])],
    [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array([1], np.int64), "axis"),
    ],
)
version = Path("models/sentiment_classifier/1")
version.mkdir(parents=True, exist_ok=True)
opset = helper.make_opsetid("", 17)
onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), version / "model.onnx")
Path("models/sentiment_tokenizer/1/words.txt").write_text("\n".join(words))
# Git keeps no empty folder; an ensemble has no files.
Path("models/sentiment/1").mkdir(parents=True, exist_ok=True)
