# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from ray.exceptions import RuntimeEnvSetupError

from cluster.actors.calls import cause_of

FAILED = """Failed to set up runtime environment.
Traceback (most recent call last):
ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[12] failed with the following
Command '['pip', 'install', '-r', 'x']' returned non-zero exit status 1.
Last 50 lines of stdout:
    ERROR: Could not find a version that satisfies the requirement nothing==1
    ERROR: No matching distribution found for nothing==1
"""


def test_environment_that_cannot_be_made_shows_what_the_installer_said():
    assert cause_of(RuntimeEnvSetupError(FAILED)) == (
        "its environment could not be set up: "
        "ERROR: Could not find a version that satisfies the requirement nothing==1\n"
        "ERROR: No matching distribution found for nothing==1"
    )


def test_what_the_installer_said_has_no_user_of_an_index():
    text = FAILED.replace("ERROR: No", "ERROR: https://who:token@host/simple: no")
    assert "token" not in cause_of(RuntimeEnvSetupError(text))


def test_failure_without_an_installer_shows_its_last_line_in_bounds():
    text = cause_of(RuntimeEnvSetupError("Traceback:\n" + "x" * 10_000))
    assert text.endswith("xxx")
    assert len(text) < 3000
