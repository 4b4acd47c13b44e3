# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller's part in settings, in memory."""

from collections.abc import Callable

from deployments.data_plane.settings_plane import SettingsPlane
from deployments.settings.server_settings import ServerSettings, SettingsChange, changed
from deployments.shared_memory.cuda import CudaMaps


class MemoryControl:
    """Changes settings as the controller does."""

    def __init__(self) -> None:
        self.settings = ServerSettings()

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        self.settings = changed(self.settings, change)
        return self.settings


def settings_plane(
    control: MemoryControl,
    knows_model: Callable[[str], object],
    *,
    allow_client_memory: bool = False,
    cuda: CudaMaps | None = None,
) -> SettingsPlane:
    return SettingsPlane(
        lambda: control.settings,
        control,
        knows_model,
        allow_client_memory=allow_client_memory,
        cuda=cuda,
    )
