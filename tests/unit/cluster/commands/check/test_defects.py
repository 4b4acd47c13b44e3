# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The line of a defect."""

import pytest

from cluster.commands.check.defects import Defect, Severity


@pytest.mark.parametrize("text", ["no such method", "no such method."])
def test_what_to_do_follows_the_text_without_its_full_stop(text: str) -> None:
    defect = Defect("model.py", 1, 2, Severity.ERROR, text, "define it")
    assert str(defect) == "model.py:1:2: error: no such method; define it"


def test_a_text_that_says_what_to_do_stays_as_it_is() -> None:
    defect = Defect("model.py", 1, 2, Severity.ERROR, "no such method.")
    assert str(defect) == "model.py:1:2: error: no such method."
