# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what the function of app.py says with what the served model says."""

import json
import sys
import urllib.request

from app import Flat, rent

for flat in ({"area": 80.0, "rooms": 3}, {"area": 42.0, "rooms": 1}):
    url = f"http://{sys.argv[1]}/v2/models/rent/generate"
    with urllib.request.urlopen(url, json.dumps(flat).encode()) as answer:
        served = json.load(answer)
    print(flat, "function:", rent(Flat(**flat))["rent"], "model:", served["rent"])
