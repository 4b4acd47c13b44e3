# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Config and files that come with a load in place of the repository's. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import ParameterValue


@dataclass(frozen=True, slots=True)
class Override:
    """Config and files given with a load in place of the repository's.

    Attributes:
        config_json: The config as JSON; None for the repository's.
        files: Content by parameter name, ``file:<path in the model's directory>``.
        directory_digest: Digest of the model's directory when it was loaded so; empty with files.
    """

    config_json: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    directory_digest: str = ""


NO_OVERRIDE = Override()


def read_override(name: str, parameters: Mapping[str, ParameterValue | bytes]) -> Override:
    """Read the parameters of a load.

    Raises:
        TritonError: The name or a parameter is refused.

    Triton: core/src/tritonserver.cc TRITONSERVER_ServerLoadModelWithParameters @73aad7c
    """
    if not name:
        raise InternalError("failed to load '', failed to poll from model repository")
    config_json: str | None = None
    files: dict[str, bytes] = {}
    for key, value in parameters.items():
        if key == "config" and isinstance(value, str):
            config_json = value
        elif key.startswith("file:") and isinstance(value, bytes):
            files[key] = value
        else:
            raise InvalidArgumentError(f"unrecognized load parameter '{key}'.")
    return Override(config_json, files)


def choose_override(
    given: Override, kept: Override, read_directory_digest: Callable[[], str]
) -> Override:
    """Return what to read a model with.

    A config without files holds until the model's directory changes, also for loads that give none;
    files hold for their load only.

    Args:
        given: What came with this load.
        kept: What the last successful load used.
        read_directory_digest: Digests the model's directory as it is now.

    Triton: core/src/model_repository_manager/model_repository_manager.cc InitializeModelInfo
    @73aad7c
    """
    if given.files or given.directory_digest:
        return given
    if given.config_json is not None:
        return replace(given, directory_digest=read_directory_digest())
    if kept.directory_digest and kept.directory_digest == read_directory_digest():
        return kept
    return given
