"""Marks of pipelines on their tables."""

from __future__ import annotations

import pytest

from paimon_table import TablePaths
from paimon_table.errors import CorruptFile
from paimon_table.storage.memory_io import MemoryFileIO
from sinks.commit.pipeline_mark import has_mark


@pytest.mark.parametrize("content", [b"", b"[]", b'{"pipeline": "other"}', b"[" * 100_000])
def test_a_file_that_is_no_mark_is_named_with_the_remedy(content: bytes) -> None:
    io, paths = MemoryFileIO(), TablePaths("/t")
    io.write("/t/tidemark/shop.json", content)
    with pytest.raises(CorruptFile, match=r"/t/tidemark/shop.json cannot be read .*restore the file"):
        has_mark(io, paths, "shop")
