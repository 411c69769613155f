"""Charts as PNG."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.line_charts import Mark, Panel, draw

Image = pytest.importorskip("PIL.Image")


def _colours(file: Path, box: tuple[int, int, int, int]) -> set[tuple[int, ...]]:
    with Image.open(file) as image:
        return set(image.convert("RGB").crop(box).get_flattened_data())


def test_a_line_lies_at_its_values(tmp_path: Path) -> None:
    file = tmp_path / "charts.png"
    low = Panel(
        "low", {"one": [(0.0, 0.0), (40.0, 0.0), (50.0, None), (60.0, 0.0), (100.0, 0.0)], "two": [(0.0, 10.0)]}
    )

    draw(file, "both", [low, Panel("empty", {"none": []}), Panel("third", {})], [Mark(30.0, "kill")], 100.0)

    with Image.open(file) as image:
        assert (image.format, image.width, image.height) == ("PNG", 1240, 414)
    assert file.stat().st_size < 40_000
    bottom, above, gap = (70, 200, 100, 204), (70, 120, 100, 180), (300, 200, 370, 204)
    blue = {colour for colour in _colours(file, bottom) if colour[2] > colour[0] + 60}
    assert blue, "the line at zero lies on the axis"
    assert not {colour for colour in _colours(file, above) if colour[2] > colour[0] + 60}
    assert not {colour for colour in _colours(file, gap) if colour[2] > colour[0] + 60}, "None is a gap"
    red = {colour for colour in _colours(file, (220, 120, 250, 180)) if colour[0] > colour[2] + 40}
    assert red, "a mark goes through the panel"
