# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fields that many kinds have: quantities, selectors, references to other objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

QUANTITY = re.compile(
    r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?$"
)
SCALE = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def quantity(value: Any) -> Decimal:
    """Parse a resource quantity.

    Raises:
        ValueError: It is none.
    """
    match = QUANTITY.match(str(value)) if not isinstance(value, bool) else None
    if match is None:
        raise ValueError(f"{value!r} is not a quantity")
    number, exponent, suffix = match.groups()
    try:
        amount = Decimal(number + (exponent or ""))
    except InvalidOperation as error:
        raise ValueError(str(value)) from error
    if suffix in BINARY:
        return amount * (1 << BINARY[suffix])
    return amount.scaleb(SCALE[suffix]) if suffix else amount


def matches(
    selector: dict[str, Any] | None, labels: dict[str, str], wild: Iterable[str] = ()
) -> bool:
    """Whether a label selector (matchLabels and matchExpressions) selects the labels; wild keys match any value."""
    if selector is None:
        return False
    wild = set(wild)
    if any(
        labels.get(k) != v and k not in wild for k, v in (selector.get("matchLabels") or {}).items()
    ):
        return False
    for each in selector.get("matchExpressions") or []:
        key, operator, values = each.get("key"), each.get("operator"), each.get("values") or []
        if key in wild:
            continue
        present = key in labels
        if (operator == "In" and labels.get(key) not in values) or (
            operator == "NotIn" and labels.get(key) in values
        ):
            return False
        if (operator == "Exists" and not present) or (operator == "DoesNotExist" and present):
            return False
    return True


def references(node: Any, path: str = "") -> Iterator[tuple[str, str, str, str | None]]:
    """Yield path, kind, name and key of every ConfigMap, Secret, ServiceAccount or claim that a pod names."""
    if isinstance(node, list):
        for index, each in enumerate(node):
            yield from references(each, f"{path}.{index}")
    if not isinstance(node, dict):
        return
    for field_name, value in node.items():
        where = f"{path}.{field_name}".lstrip(".")
        if isinstance(value, dict) and not value.get("optional"):
            if field_name in ("configMapKeyRef", "secretKeyRef"):
                yield (
                    where,
                    "ConfigMap" if "config" in field_name else "Secret",
                    str(value.get("name")),
                    value.get("key"),
                )
            elif field_name in ("configMapRef", "secretRef") and "name" in value:
                yield (
                    where,
                    "ConfigMap" if "config" in field_name else "Secret",
                    str(value["name"]),
                    None,
                )
            elif field_name == "configMap" and "name" in value:
                yield where, "ConfigMap", str(value["name"]), None
            elif field_name == "secret" and ("secretName" in value or "name" in value):
                yield where, "Secret", str(value.get("secretName") or value.get("name")), None
            elif field_name == "persistentVolumeClaim" and "claimName" in value:
                yield where, "PersistentVolumeClaim", str(value["claimName"]), None
        if (
            field_name == "serviceAccountName"
            and isinstance(value, str)
            and value not in ("", "default")
        ):
            yield where, "ServiceAccount", value, None
        if field_name == "imagePullSecrets" and isinstance(value, list):
            for each in value:
                yield where, "Secret", str((each or {}).get("name")), None
            continue
        yield from references(value, where)
