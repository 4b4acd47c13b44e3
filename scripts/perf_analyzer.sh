#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Runs NVIDIA's perf_analyzer 2.51 with the arguments given.
set -euo pipefail
dir=$("$(dirname "$0")/setup_reference.sh")
exec env LD_LIBRARY_PATH="$dir/perf_analyzer" "$dir/perf_analyzer/perf_analyzer" "$@"
