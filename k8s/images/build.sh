#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds a variant of the image with podman, buildah or docker.
#
#   k8s/images/build.sh VARIANT BASE [REPOSITORY]
#
# BASE is an image by digest, for example docker.io/library/python:3.11-slim-bookworm@sha256:...
# It needs no CUDA for the variants of GPUs: PyPI's packages bring it, in the version that they need.
# WHEEL=plain leaves out the compiled form; RUNTIME_PACKAGES= takes BASE as it is.
set -euo pipefail

declare -A extras=(
  [cpu]="cpu"
  [pytorch]="cpu,pytorch"
  [openvino]="cpu,openvino"
  [tensorflow]="cpu,tensorflow"
  [trees]="cpu,trees"
  [all-cpu]="all-cpu"
  [gpu]="gpu"
  [pytorch-gpu]="gpu,pytorch,cuda"
  [tensorrt]="gpu,tensorrt"
)
common="s3,gcs,azure,otel,redis"
packages="bash ca-certificates libgomp1 tini wget"

variant=${1:-}
base=${2:-}
repository=${3:-ghcr.io/manta-serve/manta}
if [[ -z "${extras[$variant]:-}" ]]; then
  echo "no variant '$variant'; there are: ${!extras[*]}" >&2
  exit 2
fi
if [[ "$base" != *@sha256:* && "$base" != localhost/* ]]; then
  echo "BASE '$base' has no digest; give one, as in python:3.11-slim-bookworm@sha256:..." >&2
  exit 2
fi

if [[ "$base" == *cuda* ]]; then
  packages+=" python3 python3-venv"
fi

cd "$(dirname "$0")/../.."
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' cluster/__init__.py)
builder=$(command -v podman || command -v buildah || command -v docker)
"$builder" build -f k8s/images/Containerfile -t "$repository:$version-$variant" \
  --build-arg "BASE=$base" \
  --build-arg "EXTRAS=${extras[$variant]},$common" \
  --build-arg "RUNTIME_PACKAGES=${RUNTIME_PACKAGES-$packages}" \
  --build-arg "WHEEL=${WHEEL:-auto}" \
  --build-arg "VERSION=$version" \
  --build-arg "REVISION=$(git rev-parse HEAD)" .
