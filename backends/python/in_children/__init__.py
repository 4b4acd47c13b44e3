# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The last folder on a model's path, for processes that the model spawns.

A function of ``model.py`` that multiprocessing runs elsewhere has the file imported there, and with
it what an instance's process has without a file.
"""
