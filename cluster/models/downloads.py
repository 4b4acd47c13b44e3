# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How far nodes are with the files of versions that load, as the repository index tells it.

Nodes report while they download, and nobody asks them. A version that loads no more is forgotten,
whatever its nodes had still to say. Pure.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cluster.models.states import ModelRecord, VersionRecord
from deployments.contracts.routing_table import ModelReadyState

_MIB: Final = 1 << 20


class Downloads:
    """The downloads of which nodes have told."""

    def __init__(self) -> None:
        self._by_key: defaultdict[str, dict[tuple[int, str], tuple[int, int]]] = defaultdict(dict)

    def note(self, key: str, version: int, node: str, there_bytes: int, all_bytes: int) -> None:
        """Note what a node says of a version.

        Args:
            key: The model's key.
            version: Version number.
            node: Who downloads.
            there_bytes: What it has.
            all_bytes: What it wants; 0 when it is done, or has given up.
        """
        if all_bytes:
            self._by_key[key][version, node] = (there_bytes, all_bytes)
        else:
            self._by_key[key].pop((version, node), None)
            if not self._by_key[key]:
                del self._by_key[key]

    def shown_in(self, records: Mapping[str, ModelRecord]) -> Mapping[str, ModelRecord]:
        """Return records in which versions that load have their downloads for a reason.

        Of several nodes the one that has the largest part still to come counts.
        """
        if not self._by_key:
            return records
        shown = dict(records)
        for key in tuple(self._by_key):
            record = records.get(key, ModelRecord(key))
            self._forget_loaded(key, record)
            for version, text in self._texts(key).items():
                at = record.versions[version]
                reason = "; ".join(filter(None, (at.reason, text)))
                record = record.with_version(replace(at, reason=reason))
            if key in records:
                shown[key] = record
        return shown

    def _forget_loaded(self, key: str, record: ModelRecord) -> None:
        for version, node in tuple(self._by_key[key]):
            at = record.versions.get(version, VersionRecord(version))
            if at.state is not ModelReadyState.LOADING:
                self.note(key, version, node, 0, 0)

    def _texts(self, key: str) -> dict[int, str]:
        slowest: dict[int, tuple[int, int]] = {}
        for (version, _), (there, wanted) in self._by_key.get(key, {}).items():
            known = slowest.get(version)
            if known is None or there / wanted < known[0] / known[1]:
                slowest[version] = (there, wanted)
        return {
            version: f"downloading: {there // _MIB} of {wanted // _MIB} MiB"
            for version, (there, wanted) in slowest.items()
        }
