#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of commands that are missing, as root or by sudo:
#
#   scripts/debian_packages.sh curl=curl bwrap=bubblewrap
#
# Exits with 1 and says why where that cannot be done.
set -uo pipefail

missing=()
for pair in "$@"; do
  command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
said=$({ "${install[@]}" update && "${install[@]}" install --yes --no-install-recommends "${missing[@]}"; } 2>&1) && exit 0
echo "apt-get could not install ${missing[*]}: $(tail -n 3 <<<"$said")" >&2
exit 1
