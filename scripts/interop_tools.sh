#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Installs what integration tests talk to and PyPI has not: curl, nghttp, h2load and redis-server from
# Debian, @grpc/grpc-js from npm. What cannot be installed is named, and its tests are skipped; in CI
# (CI=true) it is an error.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
said=$(scripts/debian_packages.sh \
  curl=curl nghttp=nghttp2-client h2load=nghttp2-client npm=nodejs npm=npm redis-server=redis-server 2>&1) \
  || failed+=("$said")

packages=tests/integration/grpc_js
if ! cmp --silent "$packages/package-lock.json" "$packages/node_modules/.installed-lock"; then
  if said=$(npm ci --prefix "$packages" --ignore-scripts --no-audit --no-fund --loglevel=error 2>&1); then
    cp "$packages/package-lock.json" "$packages/node_modules/.installed-lock"
  else
    failed+=("npm could not install @grpc/grpc-js: $(tail -n 3 <<<"$said")")
  fi
fi

[ ${#failed[@]} -gt 0 ] || exit 0
printf 'interop-tools: %s\n' "${failed[@]}" >&2
case "${CI:-}" in true | 1) exit 1 ;; esac
