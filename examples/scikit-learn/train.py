# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of flowers by four lengths; model.py, which loads it, is beside it."""

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

joblib.dump(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)), "iris/iris.joblib")
