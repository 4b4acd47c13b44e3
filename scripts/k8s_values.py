# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/helm-values.md: the table of the chart's values, from its schema and its defaults.

Usage: k8s_values.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "k8s/helm/manta"
PAGE = ROOT / "docs/helm-values.md"
_HEAD = """# Values of the Helm chart

Made by `scripts/k8s_values.py` from `values.schema.json` and `values.yaml` in `k8s/helm/manta`.
Change these, then run it. A value that is not here is rejected by `helm install`. How to begin:
[kubernetes.md](kubernetes.md).

| value | default | meaning |
|---|---|---|
"""
_OF_GROUPS = """
## groups.NAME

The chart has the groups `cpu`, which is enabled, `gpu`, `mig-1g-10gb` and `mig-3g-40gb`. What
differs is set beside `enabled: true`; a group of another name needs its numbers of pods,
`rayResources` and `resources`.

| value | default of `cpu` | of `gpu` | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Render the page."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [
        f"| `{path}` | {_shown(default)} | {meaning} |"
        for path, default, meaning in _rows(schema, values, "")
    ]
    group = schema["properties"]["groups"]["additionalProperties"]["properties"]
    both = (values["groups"]["cpu"], values["groups"]["gpu"])
    of_groups = [
        f"| `{name}` | {' | '.join(_shown(each.get(name)) for each in both)} | {_meaning(sub)} |"
        for name, sub in group.items()
    ]
    return _HEAD + "\n".join(rows) + "\n" + _OF_GROUPS + "\n".join(of_groups) + "\n"


def _rows(schema: dict[str, Any], values: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    for name, sub in schema["properties"].items():
        if name not in values or name == "groups":
            continue
        below = f"{path}.{name}".lstrip(".")
        if "description" in sub:
            yield below, values[name], _meaning(sub)
        else:
            yield from _rows(sub, values[name], below)


def _meaning(schema: dict[str, Any]) -> str:
    choices = ", ".join(f"`{each}`" for each in schema.get("enum") or [])
    return schema["description"] + (f". One of {choices}" if choices else "")


def _shown(default: Any) -> str:
    if default in (None, "", {}, []):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
