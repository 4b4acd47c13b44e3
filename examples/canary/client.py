# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends requests until the rollout is over and counts which version has answered."""

import http.client
import json
import sys
from collections import Counter

MODEL = "/v2/models/discount"
PRICE = {"inputs": [{"name": "PRICE", "datatype": "FP32", "shape": [1, 1], "data": [50]}]}
connection = http.client.HTTPConnection(sys.argv[1])


def ask(method, path, document=None):
    """Return the JSON of an answer."""
    connection.request(method, MODEL + path, document and json.dumps(document))
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != http.HTTPStatus.OK:
        sys.exit(text)
    return json.loads(text)


versions = Counter()
while (phase := ask("GET", "/rollout")["phase"]) not in {"promoted", "rolled_back"}:
    versions.update(ask("POST", "/infer", PRICE)["model_version"] for _ in range(100))
print("answered by both versions:", sorted(versions) == ["1", "2"])
print(phase, "- now version", ask("POST", "/infer", PRICE)["model_version"])
