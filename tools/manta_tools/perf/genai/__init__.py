# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Language models under load: prompts, endpoints, sessions, tokens and their times.

Options, metrics and files are genai-perf's (triton-inference-server/perf_analyzer genai-perf
@263c5f6).
"""
