"""Slices of a retry: what says what one of them has taken is named when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import LocalFileIO
from pipelines.quarantine.slices import Slice, Slices


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"\xff\xfe\xfd", b"[" * 100_000], ids=range(5))
def test_a_damaged_slice_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    slices = Slices(LocalFileIO(), str(tmp_path))
    written = Slice("retry-1", 0, False, 1, 0, {})
    slices.write(written, [])
    assert slices.unfinished() == [written]

    (file,) = tmp_path.glob("retry-*/slice-*/slice.json")
    file.write_bytes(content)

    with pytest.raises(CorruptFile, match=rf"{file} is not what was written .* remove the file"):
        slices.unfinished()
