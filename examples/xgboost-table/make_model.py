# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a forest on scikit-learn's table of tumours: 30 measurements, malignant or benign."""

from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer

rows, is_benign = load_breast_cancer(return_X_y=True)
rows = rows.astype(np.float32)
trained = xgboost.XGBClassifier(n_estimators=50, max_depth=3, n_jobs=1)
trained.fit(rows[:400], is_benign[:400])
version = Path("models/tumours/1")
version.mkdir(parents=True, exist_ok=True)
trained.save_model(version / "xgboost.json")
# What it was not trained on, and what XGBoost itself says of it.
np.savez(
    "held_out.npz",
    rows=rows[400:],
    is_benign=is_benign[400:],
    probabilities=trained.predict_proba(rows[400:]),
)
