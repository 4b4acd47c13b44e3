#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Installs what integration tests talk to and PyPI has not: curl, nghttp, h2load and redis-server from
# Debian, @grpc/grpc-js from npm. What cannot be installed is named, and its tests are skipped; in CI
# (CI=true) it is an error.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
missing=()
command -v curl >/dev/null || missing+=(curl)
{ command -v nghttp && command -v h2load; } >/dev/null || missing+=(nghttp2-client)
command -v npm >/dev/null || missing+=(nodejs npm)
command -v redis-server >/dev/null || missing+=(redis-server)

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if [ ${#missing[@]} -gt 0 ]; then
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  said=$({ "${install[@]}" update && "${install[@]}" install --yes --no-install-recommends "${missing[@]}"; } 2>&1) \
    || failed+=("apt-get could not install ${missing[*]}: $(tail -n 3 <<<"$said")")
fi

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
