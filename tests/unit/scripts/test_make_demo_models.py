# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from scripts import make_demo_models as demo
from tests.support.models import context_of, load
from tests.support.png import png_of
from tests.support.recording import execute, recorded


def loaded(root: Path, name: str):
    demo.MODELS[name](root / name)
    return load(context_of(root, (root / name / "config.pbtxt").read_text()))


@pytest.mark.slow
def test_digits_model_knows_digits_it_never_saw(tmp_path):
    instance = loaded(tmp_path, "digits")
    images, labels = demo.held_out_digits()
    request = recorded({"X": images})
    execute(instance, request)
    arrays = request.arrays()
    assert (arrays["label"][:, 0] == labels).mean() > 0.95
    assert np.allclose(arrays["probabilities"].sum(axis=1), 1.0, atol=1e-4)
    assert (tmp_path / "digits" / "digits.txt").read_text().split()[7] == "seven"


@pytest.mark.slow
def test_digits_model_is_the_same_every_time(tmp_path):
    for directory in ("a", "b"):
        demo.make_digits(tmp_path / directory)
    first, second = ((tmp_path / one / "1" / "model.onnx").read_bytes() for one in ("a", "b"))
    assert first == second


def test_simple_adds_and_subtracts(tmp_path):
    rows = np.arange(16, dtype=np.int32).reshape(1, 16)
    request = recorded({"INPUT0": rows, "INPUT1": np.ones_like(rows)})
    execute(loaded(tmp_path, "simple"), request)
    assert np.array_equal(request.arrays()["OUTPUT0"], rows + 1)
    assert np.array_equal(request.arrays()["OUTPUT1"], rows - 1)


def test_simple_string_adds_and_subtracts_decimal_numbers(tmp_path):
    texts = np.array([[str(k).encode() for k in range(16)]], dtype=object)
    ones = np.full_like(texts, b"1")
    requests = [
        recorded({"INPUT0": texts, "INPUT1": ones}),
        recorded({"INPUT0": texts, "INPUT1": np.full_like(texts, b"x")}),
    ]
    execute(loaded(tmp_path, "simple_string"), *requests)
    assert requests[0].arrays()["OUTPUT1"][0, 0] == b"-1"
    assert requests[0].arrays()["OUTPUT0"][0, 15] == b"16"
    assert requests[1].error.code == "Invalid argument"


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("simple_identity", np.array([[b"\xff", b""]], dtype=object)),
        ("identity_fp32", np.array([[1.5, np.inf]], dtype=np.float32)),
    ],
)
def test_identities_repeat_their_input(tmp_path, name, array):
    request = recorded({"INPUT0": array})
    execute(loaded(tmp_path, name), request)
    assert np.array_equal(request.arrays()["OUTPUT0"], array)


def test_digits_decode_reads_every_filter_of_png(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8), np.uint8)
    png = png_of(pixels, (0, 1, 2, 3, 4, 4, 3, 1))
    request = recorded({"PNG": np.array([[png]], dtype=object)})
    refused = recorded({"PNG": np.array([[b"GIF89a"]], dtype=object)})
    execute(loaded(tmp_path, "digits_decode"), request, refused)
    np.testing.assert_allclose(request.arrays()["X"][0], pixels.reshape(-1) * (16 / 255), rtol=1e-6)
    assert refused.error.message == "the bytes are no PNG"


def test_digits_name_names_labels(tmp_path):
    request = recorded({"label": np.array([[7], [0]])})
    execute(loaded(tmp_path, "digits_name"), request)
    assert request.arrays()["NAME"].tolist() == [[b"seven"], [b"zero"]]
