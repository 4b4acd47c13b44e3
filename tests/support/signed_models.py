# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Signs models in place, as they are: what `manta model sign` refuses to sign, too."""

from pathlib import Path

from cluster.repository.agents.verify import read_private_key, signature_of
from cluster.repository.manifest import (
    MANIFEST_FILE,
    SIGNATURE_FILE,
    make_manifest,
    render_manifest,
    version_directories,
)


def sign_model(directory: Path, private_key: bytes) -> None:
    """Write manifests of a model and its versions, and signatures of them."""
    key = read_private_key(private_key)
    for signed in (directory, *version_directories(directory)):
        content = render_manifest(make_manifest(signed, versions_apart=signed == directory))
        (signed / MANIFEST_FILE).write_bytes(content)
        (signed / SIGNATURE_FILE).write_bytes(signature_of(key, content))
