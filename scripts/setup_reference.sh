#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Sets up, once, a real Triton 2.51 (Python backend, CPU) and NVIDIA's perf_analyzer from PyPI wheels
# under .cache/reference (or $MANTA_REFERENCE_DIR), and prints that directory. No Docker, no GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
dir=${MANTA_REFERENCE_DIR:-$here/.cache/reference}
if [ -e "$dir/ready" ]; then echo "$dir"; exit 0; fi
mkdir -p "$dir/perf_analyzer" "$dir/wheels"
python3 -m venv "$dir/venv" >&2
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check nvidia-pytriton==0.7.0 onnxruntime >&2
"$dir/venv/bin/pip" download --quiet --no-deps -d "$dir/wheels" tritonclient==2.51.0 >&2
"$dir/venv/bin/python" - "$dir" >&2 <<'PY'
import pathlib
import shutil
import sys
import sysconfig
import zipfile

root = pathlib.Path(sys.argv[1])
site = pathlib.Path(sysconfig.get_paths()["purelib"])
triton = site / "pytriton/tritonserver"
backends = root / "backends"
shutil.rmtree(backends, ignore_errors=True)
shutil.copytree(triton / "backends", backends)
# The wheel keeps one Python stub per interpreter version; Triton wants it beside the backend.
stub = triton / "python_backend_stubs" / "{}.{}".format(*sys.version_info)
for each in stub.iterdir():
    shutil.copy(each, backends / "python")
(root / "site").write_text(str(site))
(root / "libdir").write_text(sysconfig.get_config_var("LIBDIR"))
wheel = zipfile.ZipFile(next((root / "wheels").glob("tritonclient-2.51.0-*.whl")))
program = root / "perf_analyzer/perf_analyzer"
program.write_bytes(wheel.read(next(n for n in wheel.namelist() if n.endswith("bin/perf_analyzer"))))
program.chmod(0o755)
# perf_analyzer links to libraries that the Triton wheel carries under other names.
for stem, soname in (("libb64-*", "libb64.so.0d"), ("libcudart-*", "libcudart.so.12")):
    link = root / "perf_analyzer" / soname
    link.unlink(missing_ok=True)
    link.symlink_to(next((site / "nvidia_pytriton.libs").glob(stem)))
PY
touch "$dir/ready"
echo "$dir"
