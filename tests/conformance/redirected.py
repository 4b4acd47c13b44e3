# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that names its addresses, such as localhost:8000, against others.

python redirected.py HTTP GRPC METRICS PROGRAM [ARGUMENT...]
"""

import runpy
import sys
from typing import Any

import requests
import tritonclient.grpc
import tritonclient.http

METRICS_URL = "http://localhost:8002/"


def redirect(http: str, grpc: str, metrics: str) -> None:
    """Make client classes and ``requests.get`` go elsewhere in this process."""
    for module, address in ((tritonclient.http, http), (tritonclient.grpc, grpc)):
        made = module.InferenceServerClient

        def elsewhere(
            url: str, *args: Any, _made: Any = made, _address: str = address, **kwargs: Any
        ) -> Any:
            return _made(_address, *args, **kwargs)

        module.InferenceServerClient = elsewhere
    get = requests.get

    def get_elsewhere(url: str, *args: Any, **kwargs: Any) -> Any:
        return get(url.replace(METRICS_URL, f"http://{metrics}/"), *args, **kwargs)

    requests.get = get_elsewhere


if __name__ == "__main__":
    redirect(*sys.argv[1:4])
    sys.argv = sys.argv[4:]
    runpy.run_path(sys.argv[0], run_name="__main__")
