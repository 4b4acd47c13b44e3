# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A minute of the attack suite; ``make attack`` is all of it."""

from tests.attack.run import FAMILIES, run
from tests.attack.scene import QUICK
from tests.attack.tally import table


def test_no_attack_gets_in_and_none_throws_the_server_over() -> None:
    tallies = run(QUICK, FAMILIES)
    assert not any(each.findings for each in tallies), "\n" + table(tallies)
    assert all(each.count for each in tallies)
