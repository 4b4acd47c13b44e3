#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Installs azurite, the Azure store that the store tests talk to, from npm. What cannot be installed is
# named, and its tests are skipped; in CI (CI=true) it is an error.
set -uo pipefail
cd "$(dirname "$0")/.."

packages=tests/stores/azurite
if ! cmp --silent "$packages/package-lock.json" "$packages/node_modules/.installed-lock"; then
  if said=$(npm ci --prefix "$packages" --ignore-scripts --no-audit --no-fund --loglevel=error 2>&1); then
    cp "$packages/package-lock.json" "$packages/node_modules/.installed-lock"
  else
    printf 'store-tools: npm could not install azurite: %s\n' "$(tail -n 3 <<<"$said")" >&2
    case "${CI:-}" in true | 1) exit 1 ;; esac
  fi
fi
