#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the CPU image where there is no registry and no container engine, and puts its files into a
# folder: a Debian from its archive, buildah in a chroot. Needs root, mmdebstrap and buildah.
#
#   k8s/images/build_local.sh FOLDER [WORK]
#
# FOLDER gets the root file system; WORK keeps the base between builds (default: beside FOLDER).
# EXTRAS are Manta's, as in build.sh; ONNX Runtime alone unless given.
set -euo pipefail

folder=$(realpath -m "${1:?FOLDER is missing}")
work=$(realpath -m "${2:-$folder.work}")
certificates=/etc/ssl/certs/ca-certificates.crt
mkdir -p "$work"
export TMPDIR="$work"
storage=(--root "$work/storage" --runroot "$work/run")
packages=bash,ca-certificates,libgomp1,python3,python3-venv,tini,wget

if [[ ! -e "$work/base.tar" ]]; then
  mmdebstrap --quiet --variant=minbase --include="$packages" --format=tar bookworm "$work/base.part"
  mv "$work/base.part" "$work/base.tar"
fi
container=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" add --quiet "$container" "$work/base.tar" / >/dev/null
buildah "${storage[@]}" commit --quiet "$container" localhost/debian:local >/dev/null
buildah "${storage[@]}" rm "$container" >/dev/null

cd "$(dirname "$0")/../.."
buildah "${storage[@]}" bud --quiet --isolation chroot --volume "$certificates:$certificates:ro" \
  --build-arg BASE=localhost/debian:local --build-arg RUNTIME_PACKAGES= \
  --build-arg BUILD_PACKAGES= --build-arg WHEEL=plain --build-arg EXTRAS="${EXTRAS-cpu}" \
  --file k8s/images/Containerfile --tag localhost/manta:local .

container=$(buildah "${storage[@]}" from localhost/manta:local)
mkdir -p "$folder"
cp --archive "$(buildah "${storage[@]}" mount "$container")/." "$folder"
buildah "${storage[@]}" rm "$container" >/dev/null
