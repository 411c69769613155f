"""Line charts as one PNG, drawn with Pillow: panels below each other in two columns over one common time axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float | None]
"""Time and value; None makes a gap in the line."""

_WIDTH, _HEIGHT, _COLUMNS = 620, 190, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 40, 22
_SCALE = 2
"""Drawn larger and made smaller, which smooths lines."""
_COLOURS = ("#1f6fb2", "#d1495b", "#2e8b57", "#b07d12", "#7a4fa3", "#17889b", "#8a8a8a")
_MARKS = {"kill": "#e8a0a0", "change": "#a9bdd6"}
_TEXT, _GRID = "#222222", "#e4e4e4"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart; its lines by their names."""

    title: str
    lines: Mapping[str, Sequence[Point]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line in every panel; ``kind`` is ``kill`` or ``change``."""

    at: float
    kind: str


def draw(path: Path, heading: str, panels: Sequence[Panel], marks: Sequence[Mark], end: float) -> None:
    """Write the PNG; the time axis goes from 0 to ``end``, values from 0 to what the lines need."""
    rows = math.ceil(len(panels) / _COLUMNS)
    size = (_WIDTH * _COLUMNS * _SCALE, (_HEIGHT * rows + 34) * _SCALE)
    image = Image.new("RGB", size, "white")
    canvas = ImageDraw.Draw(image)
    canvas.text((12 * _SCALE, 10 * _SCALE), heading, _TEXT, _font(13))
    for number, panel in enumerate(panels):
        left = number % _COLUMNS * _WIDTH * _SCALE
        top = (number // _COLUMNS * _HEIGHT + 34) * _SCALE
        _Frame(canvas, left, top, max(end, 1e-9), _highest(panel)).draw(panel, marks)
    small = image.resize((size[0] // _SCALE, size[1] // _SCALE), Image.Resampling.BOX)
    small.quantize(48).save(path, optimize=True)


class _Frame:
    """The place of a panel on the canvas, and the scale of its values."""

    def __init__(self, canvas: ImageDraw.ImageDraw, left: float, top: float, end: float, highest: float) -> None:
        self._canvas, self._end = canvas, end
        self._step = _round_step(highest)
        self._high = self._step * math.ceil(highest / self._step)
        self._x0, self._x1 = left + _LEFT * _SCALE, left + (_WIDTH - _RIGHT) * _SCALE
        self._y0, self._y1 = top + _TOP * _SCALE, top + (_HEIGHT - _BOTTOM) * _SCALE
        self._top = top

    def draw(self, panel: Panel, marks: Sequence[Mark]) -> None:
        self._axes()
        for mark in marks:
            x = self._x(mark.at)
            self._canvas.line((x, self._y0, x, self._y1), _MARKS[mark.kind], _SCALE)
        self._canvas.text((self._x0, self._top + 4 * _SCALE), panel.title, _TEXT, _font(12))
        x = self._x0
        for (name, points), colour in zip(panel.lines.items(), _COLOURS, strict=False):
            self._line(points, colour)
            self._canvas.text((x, self._top + 21 * _SCALE), name, colour, _font(11))
            x += self._canvas.textlength(name, _font(11)) + 14 * _SCALE

    def _axes(self) -> None:
        for number in range(round(self._high / self._step) + 1):
            value = number * self._step
            y = self._y(value)
            self._canvas.line((self._x0, y, self._x1, y), _GRID, _SCALE)
            self._canvas.text((self._x0 - 6 * _SCALE, y), f"{value:,g}", _TEXT, _font(10), anchor="rm")
        step = _round_step(self._end)
        for number in range(math.floor(self._end / step) + 1):
            place = (self._x(number * step), self._y1 + 4 * _SCALE)
            self._canvas.text(place, f"{number * step:,g}", _TEXT, _font(10), anchor="ma")

    def _line(self, points: Sequence[Point], colour: str) -> None:
        part: list[tuple[float, float]] = []
        for at, value in [*points, (0.0, None)]:
            if value is not None:
                part.append((self._x(at), self._y(value)))
            elif part:
                self._canvas.line(part if len(part) > 1 else part * 2, colour, round(1.4 * _SCALE))
                part = []

    def _x(self, at: float) -> float:
        return self._x0 + (self._x1 - self._x0) * at / self._end

    def _y(self, value: float) -> float:
        return self._y1 - (self._y1 - self._y0) * value / self._high


def _highest(panel: Panel) -> float:
    values = [value for points in panel.lines.values() for _, value in points if value is not None]
    return max([value for value in values if value > 0], default=1.0)


def _round_step(highest: float) -> float:
    """1, 2 or 5 times a power of ten: about five steps up to ``highest``."""
    power = 10.0 ** math.floor(math.log10(highest / 5))
    return next(float(power * factor) for factor in (1, 2, 5, 10) if power * factor * 5 >= highest * 0.999)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * _SCALE)
