# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A page as PDF, on A4, with the fonts that matplotlib brings."""

import io
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib as mpl
from fpdf import FPDF
from fpdf.enums import TableBordersLayout, XPos, YPos
from fpdf.fonts import FontFace

from manta_tools.pages.content import Page, Paragraph, Preformatted, Table
from manta_tools.pages.figures import Bars, Figure, Histogram, Lines, Scatter
from manta_tools.pages.plotting import png, size_inches

Style = Literal["", "B"]

_FONT: Final = "DejaVu"
_MONO: Final = "DejaVuMono"
_FONT_FILES: Final[dict[tuple[str, Style], str]] = {
    (_FONT, ""): "DejaVuSans.ttf",
    (_FONT, "B"): "DejaVuSans-Bold.ttf",
    (_MONO, ""): "DejaVuSansMono.ttf",
}
_MUTED: Final = (91, 102, 117)
_WARNING: Final = (255, 244, 214)
_MARKED: Final = (230, 243, 236)
_PANEL: Final = (246, 248, 250)
_LINES: Final = (200, 207, 216)
_TEXT_PT: Final = 9.0
_SMALL_PT: Final = 7.5
_TINY_PT: Final = 6.5
# A line is half as high again as its letters.
_MM_PER_PT: Final = 0.5
_MARGIN_MM: Final = 14
_GAP_MM: Final = 6
_FIGURE_MM: Final = 150
_CAPTION_MM: Final = 10
# What has to fit below a section's title.
_SECTION_MM: Final = 45


def render(page: Page) -> bytes:
    """Return a page as PDF."""
    paper = _paper(page)
    _line(paper, page.title, 16, style="B")
    if page.lead:
        _quiet(paper, page.lead, _TEXT_PT)
    for section in page.sections:
        _keep(paper, _SECTION_MM)
        paper.ln(4)
        _line(paper, section.title, 12, style="B")
        paper.ln(1)
        for is_drawn, blocks in groupby(section.blocks, lambda block: isinstance(block, Figure)):
            if is_drawn:
                _figures(paper, list(blocks))
            else:
                for block in blocks:
                    _DRAWERS[type(block)](paper, block)
    return bytes(paper.output())


def _paper(page: Page) -> FPDF:
    is_wide = any(
        isinstance(block, Table) and block.is_wide
        for section in page.sections
        for block in section.blocks
    )
    # The pages of wide tables lie.
    paper = FPDF("landscape" if is_wide else "portrait", "mm")
    fonts = Path(mpl.get_data_path(), "fonts", "ttf")
    for (family, style), name in _FONT_FILES.items():
        paper.add_font(family, style, fonts / name)
    paper.set_margin(_MARGIN_MM)
    paper.set_auto_page_break(auto=True, margin=_MARGIN_MM)
    paper.set_draw_color(*_LINES)
    paper.set_title(page.title)
    paper.add_page()
    return paper


def _keep(paper: FPDF, height_mm: float) -> None:
    """Begin a new page where less than this is left of the current one."""
    if paper.will_page_break(height_mm):
        paper.add_page()


def _line(paper: FPDF, text: str, size_pt: float, *, style: Style = "", **more: Any) -> None:
    paper.set_font(_FONT, style, size_pt)
    _text(paper, text, size_pt, **more)


def _text(paper: FPDF, text: str, size_pt: float, **more: Any) -> None:
    height_mm = size_pt * _MM_PER_PT
    more = {"w": 0, "new_x": XPos.LMARGIN, **more}
    paper.multi_cell(h=height_mm, text=text, align="L", new_y=YPos.NEXT, **more)


def _quiet(paper: FPDF, text: str, size_pt: float, **more: Any) -> None:
    paper.set_text_color(*_MUTED)
    _line(paper, text, size_pt, **more)
    paper.set_text_color(0)


def _paragraph(paper: FPDF, block: Paragraph) -> None:
    paper.set_fill_color(*_WARNING)
    _line(paper, block.text, _TEXT_PT, fill=block.kind == "warning")
    paper.ln(1.5)


def _preformatted(paper: FPDF, block: Preformatted) -> None:
    if block.caption:
        _line(paper, block.caption, _TEXT_PT)
    paper.set_fill_color(*_PANEL)
    paper.set_font(_MONO, "", _SMALL_PT)
    _text(paper, block.text, _SMALL_PT, fill=True)
    paper.ln(2)


def _table(paper: FPDF, block: Table) -> None:
    if block.caption:
        _quiet(paper, block.caption, _SMALL_PT)
    size_pt = _TINY_PT if block.is_wide else _SMALL_PT
    paper.set_font(_FONT, "", size_pt)
    widths_mm = _widths(paper, block)
    sides = ["LEFT" if index < block.text_columns else "RIGHT" for index in range(len(widths_mm))]
    white = FontFace(fill_color=(255, 255, 255))
    marked = FontFace(fill_color=_MARKED)
    with paper.table(
        borders_layout=TableBordersLayout.HORIZONTAL_LINES,
        headings_style=FontFace(emphasis="BOLD", fill_color=_PANEL),
        text_align=tuple(sides),
        col_widths=widths_mm,
        width=min(sum(widths_mm), paper.epw),
        line_height=size_pt * _MM_PER_PT,
        padding=(0.7, 1, 0.5, 1),
        align="LEFT",
    ) as table:
        table.row(block.columns)
        for index, row in enumerate(block.rows):
            table.row(row, style=marked if index in block.marked_rows else white)
    paper.ln(3)


def _widths(paper: FPDF, block: Table) -> tuple[float, ...]:
    """Return the widths of the columns, in mm: of their longest words of the title and cells."""
    longest = []
    for index, title in enumerate(block.columns):
        # Titles are bold, which is wider.
        words = [paper.get_string_width(word) * 1.15 for word in title.split()]
        cells = [paper.get_string_width(row[index]) for row in block.rows]
        longest.append(max([*words, *cells, 4.0]) + 4.0)
    return tuple(longest)


def _figures(paper: FPDF, figures: Sequence[Any]) -> None:
    columns = 2 if paper.w > paper.h else 1
    width_mm = min((paper.epw - (columns - 1) * _GAP_MM) / columns, _FIGURE_MM)
    for first in range(0, len(figures), columns):
        row = figures[first : first + columns]
        _keep(paper, max(_height_mm(each, width_mm) for each in row))
        top, left, bottoms = paper.get_y(), paper.l_margin, []
        for index, each in enumerate(row):
            paper.set_xy(left + index * (width_mm + _GAP_MM), top)
            _figure(paper, each, width_mm)
            bottoms.append(paper.get_y())
        paper.set_xy(left, max(bottoms) + _GAP_MM)


def _height_mm(figure: Lines | Scatter | Bars | Histogram, width_mm: float) -> float:
    width, height = size_inches(figure)
    return width_mm * height / width + _CAPTION_MM


def _figure(paper: FPDF, figure: Lines | Scatter | Bars | Histogram, width_mm: float) -> None:
    left = paper.get_x()
    place: dict[str, Any] = {"w": width_mm, "new_x": XPos.LEFT}
    _line(paper, figure.title, _TEXT_PT, style="B", **place)
    if figure.note:
        _quiet(paper, figure.note, _TINY_PT, **place)
    paper.image(io.BytesIO(png(figure)), x=left, y=paper.get_y(), w=width_mm)
    paper.set_y(paper.get_y() + _height_mm(figure, width_mm) - _CAPTION_MM)


_DRAWERS: Final[dict[type[Any], Callable[[FPDF, Any], None]]] = {
    Paragraph: _paragraph,
    Preformatted: _preformatted,
    Table: _table,
}
