#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Runs the real Triton on loopback: reference_triton.sh REPOSITORY HTTP_PORT GRPC_PORT METRICS_PORT [flags]
set -euo pipefail
repository=$1 http=$2 grpc=$3 metrics=$4
shift 4
dir=$("$(dirname "$0")/setup_reference.sh")
site=$(cat "$dir/site")
export PATH="$dir/venv/bin:$PATH" PYTHONPATH="$site"
export LD_LIBRARY_PATH="$site/nvidia_pytriton.libs:$(cat "$dir/libdir")"
exec "$site/pytriton/tritonserver/bin/tritonserver" --model-repository="$repository" \
  --backend-directory="$dir/backends" --cache-directory="$site/pytriton/tritonserver/caches" --http-address=127.0.0.1 --grpc-address=127.0.0.1 \
  --metrics-address=127.0.0.1 --http-port="$http" --grpc-port="$grpc" --metrics-port="$metrics" "$@"
