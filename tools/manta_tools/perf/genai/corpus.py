# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Generated English-like text, of which prompts are cut; the same seed gives the same text."""

import random
from collections.abc import Iterator
from typing import Final

_VOCABULARY: Final = """
a about above across after again against age air all almost along also always among an and
animal another answer any around as ask at away back be because become been before began
being below best better between big black blue boat body book both boy bring brought build
but by call came can car care carry change children city clear close cold come common
complete consider could country course cross cut dark day decide deep did different do does
dog done door down draw dry during each early earth east eat end enough even evening ever
every example eye face fact fall family far farm father feet few field figure find fire
first fish five fly follow food for form found four friend from front full game gave general
get girl give go gold good got government great green ground group grow had half hand happen
hard has have he head hear heard heat help her here high him his hold home horse hot hour
house how hundred I idea if important in inside interest into is island it its just keep
kind king knew know land language large last late laugh lead learn leave left less let
letter life light like line list listen little live long look love low machine made main
make man many map mark may me mean measure men might mile mind minute money moon more
morning most mother mountain move much music must my name near need never new next night no
north note nothing notice now number object of off often old on once one only open or order
other our out over own page paper part pass pattern people perhaps person picture piece
place plain plan plant play point possible power present press problem produce question
quick rain ran reach read ready really red remember rest right river road rock room round
rule run said same saw say school science sea second see seem sentence serve set several
shape she ship short should show side simple since sing sit six size sleep slow small snow
so some song soon sound south special stand star start state stay step still stood stop
story street strong study such summer sun sure surface system table take talk teach tell ten
than that the their them then there these they thing think this those thought thousand three
through time to together told too took top toward town travel tree true try turn two under
understand unit until up us use usual very voice wait walk want war warm was watch water way
we week well went were west what wheel when where which while white who whole why will wind
winter with without wonder wood word work world would write year yet you young your
"""
_WORDS: Final = tuple(_VOCABULARY.split())
_SENTENCE_WORDS: Final = (6, 18)
_COMMA_EVERY: Final = 9


def corpus(words: int, seed: int) -> str:
    """Return a text of at least so many words; it begins with a space, so that it may go round."""
    draws = random.Random(f"corpus {seed}")  # noqa: S311 - the same text again, no secret
    found: list[str] = []
    while len(found) < words:
        found += _sentence(draws)
    return " " + " ".join(found)


def _sentence(draws: random.Random) -> Iterator[str]:
    length = draws.randint(*_SENTENCE_WORDS)
    for index, word in enumerate(draws.choices(_WORDS, k=length)):
        spelt = word.capitalize() if index == 0 else word
        if index == length - 1:
            yield spelt + "."
        elif draws.randrange(_COMMA_EVERY) == 0:
            yield spelt + ","
        else:
            yield spelt
