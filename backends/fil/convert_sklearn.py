# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a checkpoint of a scikit-learn model, whose pickle the server refuses.

    python -m backends.fil.convert_sklearn model.pkl checkpoint.tl

Loading a pickle runs code from it: convert only what you trust. Needs scikit-learn, in the version
that the model was saved with. Forests, extra trees, gradient boosting (histograms, too) and
isolation forests can be converted.

Triton: fil_backend/scripts/convert_sklearn.py
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import treelite

CHECKPOINT = "checkpoint.tl"


def convert(pickle_file: Path, checkpoint: Path) -> str:
    """Write a checkpoint of a model, and return what is in it, for people.

    Args:
        pickle_file: Written by ``pickle`` or ``joblib``.
        checkpoint: Where to write.

    Raises:
        OSError: A file cannot be read or written.
        treelite.TreeliteError: It holds no forest.
        Exception: Whatever unpickling raises.
    """
    import joblib  # noqa: PLC0415 - comes with scikit-learn, which only this needs

    estimator = joblib.load(pickle_file)
    model = treelite.sklearn.import_model(estimator)
    model.serialize(checkpoint)
    return f"{type(estimator).__name__}, {model.num_tree} trees, {model.num_feature} features"


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert as the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pickle_file", type=Path, help="written by pickle or joblib")
    parser.add_argument(
        "checkpoint", type=Path, nargs="?", help=f"default: {CHECKPOINT} beside the pickle"
    )
    given = parser.parse_args(arguments)
    checkpoint = given.checkpoint or given.pickle_file.parent / CHECKPOINT
    try:
        made = convert(given.pickle_file, checkpoint)
    except Exception as error:
        sys.stderr.write(f"{given.pickle_file}: {type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(
        f"{checkpoint}: {made}; serve it with backend 'fil' and model_type 'treelite_checkpoint'\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
