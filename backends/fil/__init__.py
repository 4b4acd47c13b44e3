# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs decision forests of XGBoost, LightGBM and scikit-learn with Treelite, on CPUs."""
