# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks the search of the site what newcomers ask: python -m tests.site SITE, the last of make docs.

The script that searches is the site's own, with the index that was built with it, in Node.js in
place of a browser. Ends with 1 if a question has no right page among the first three.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ASK = Path(__file__).with_name("ask.cjs")
FIRST = 3
_FAQ, _TROUBLE = "how-to/faq", "how-to/troubleshooting"
# What is typed, and pages that answer it.
QUESTIONS = {
    "convert triton config": ("how-to/migrate-from-triton", _FAQ),
    "model not ready why": (_TROUBLE,),
    "how to enable batching": (_FAQ,),
    "gpu not used": ("gpu",),
    "out of shared memory": (_FAQ,),
    "serve sklearn": (_FAQ, "backends/fil"),
    "kubernetes install": ("kubernetes",),
    "metrics prometheus": ("observability", "reference/metrics"),
    "change port": (_FAQ,),
    "tls certificate": ("deployment", "ports-security"),
    "reload model without restart": (_FAQ,),
    "s3 model repository": ("stores",),
    "python model dependencies": (_FAQ,),
    "slow first request": (_FAQ, "on-demand"),
    "health check url": (_FAQ, "kubernetes-server"),
    "stop server": ("how-to/stop",),
    "limit memory": ("how-to/memory",),
    "canary rollout": ("rollouts", "rollouts-operation"),
    "api key": ("access",),
    "call one model from another": (_FAQ,),
    "cannot connect": (_TROUBLE,),
    "log level": ("how-to/model-logs", "observability"),
    "multiple nodes cluster": (_FAQ, "nodes"),
    "streaming response": (_FAQ,),
    "onnx model": (_FAQ, "backends"),
    "docker image": (_FAQ, "kubernetes"),
}


def hits(site: Path, questions: list[str]) -> list[list[str]]:
    """Return the pages that the site's search shows for each question, best first."""
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.min.js")
    asked = subprocess.run(
        ["node", ASK, worker, site / "search/search_index.json"],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
    )
    pages: list[list[str]] = json.loads(asked.stdout)
    return [[page.rstrip("/") for page in each] for each in pages]


def not_found(asked: dict[str, tuple[str, ...]], found: list[list[str]]) -> list[str]:
    """Return a line for each question without a right page among the first hits."""
    return [
        f"'{question}': expected {' or '.join(right)} among the first {FIRST}, which are"
        f" {', '.join(pages[:FIRST])}"
        for (question, right), pages in zip(asked.items(), found, strict=True)
        if not set(right) & set(pages[:FIRST])
    ]


def main(site: str) -> int:
    """Ask all questions; return the exit status."""
    if shutil.which("node") is None:
        print("the search was not asked: there is no Node.js (node)", file=sys.stderr)
        return int(bool(os.environ.get("CI")))
    lines = not_found(QUESTIONS, hits(Path(site), list(QUESTIONS)))
    print("\n".join([*lines, f"{len(QUESTIONS) - len(lines)} of {len(QUESTIONS)} questions found"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
