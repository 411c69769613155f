"""Finding stored rows by key through lookup files and their cache."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.bucket_files import row_schema
from paimon_table.errors import BrokenInvariant, MachineFailure
from paimon_table.lookup.cache import LookupCache
from paimon_table.lookup.lookup_file import BrokenLookupFile, KeyWords, LookupFile, LookupFileWriter, ProbeKeys
from paimon_table.merge.sort import KeyOrder
from paimon_table.options.option_parsing import options_of
from paimon_table.rows.batch_size import BATCH_BYTES
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type


def _schema(*key_types: str) -> TableSchema:
    columns = [(f"k{i}", parse_type(t)) for i, t in enumerate(key_types)]
    return create_schema(
        [*columns, ("v", parse_type("STRING"))], [name for name, _ in columns], options={"bucket": "1"}
    )


_INT, _TEXT, _PAIR = _schema("BIGINT"), _schema("STRING"), _schema("STRING", "INT")


def _words(schema: TableSchema, **hashing: Any) -> KeyWords:
    return KeyWords(KeyOrder(schema, options_of(schema)), **hashing)


def _rows(schema: TableSchema, keys: list[tuple[Any, ...]]) -> pa.Table:
    """Stored rows of these keys, sorted; the value tells the key."""
    rows = [(i, 0, *key, repr(key)) for i, key in enumerate(keys)]
    target = row_schema(schema)
    table = pa.Table.from_arrays([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(target)], schema=target)
    return table.take(pa.array(KeyOrder(schema, options_of(schema)).sort_indices(table)))


def _weak_hash(keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Three different values only."""
    return np.array([len(repr(row)) % 3 for row in zip(*keys.to_pydict().values(), strict=True)], np.uint64)


def _write(path: Path, schema: TableSchema, words: KeyWords, rows: pa.Table, pieces: int = 1) -> LookupFile:
    writer = LookupFileWriter(path, row_schema(schema), words)
    for start in range(0, max(rows.num_rows, 1), max(1, rows.num_rows // pieces)):
        writer.append(rows.slice(start, max(1, rows.num_rows // pieces)))
    writer.finish()
    return LookupFile(path, words)


_KEYS: dict[str, tuple[TableSchema, st.SearchStrategy[tuple[Any, ...]]]] = {
    "int": (_INT, st.tuples(st.integers(-20, 20) | st.sampled_from([-(2**63), 2**63 - 1]))),
    "text": (_TEXT, st.tuples(st.text(st.sampled_from("aé"), max_size=4))),
    "pair": (_PAIR, st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 5))),
}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(sorted(_KEYS)), st.booleans(), st.integers(1, 3))
def test_every_stored_key_is_found_and_no_other(data: st.DataObject, kind: str, weak: bool, pieces: int) -> None:
    schema, key = _KEYS[kind]
    stored = data.draw(st.lists(key, unique=True, max_size=30))
    asked = data.draw(st.lists(key, unique=True, max_size=30))
    words = _words(schema, hash_keys=_weak_hash) if weak else _words(schema)
    probe_rows = _rows(schema, asked)
    with tempfile.TemporaryDirectory() as directory:
        file = _write(Path(directory) / "f", schema, words, _rows(schema, stored), pieces)
        start = data.draw(st.integers(0, len(asked)))
        excluded = np.array(data.draw(st.lists(st.booleans(), min_size=len(asked), max_size=len(asked))), np.bool_)

        located = file.locate(ProbeKeys(probe_rows, words), start, len(asked), excluded)
        rows = file.rows_at(located.row_numbers)

    wanted = [i for i in range(start, len(asked)) if not excluded[i]]
    sorted_keys = probe_rows.column("v").to_pylist()
    expected = [i for i in wanted if sorted_keys[i] in {repr(key) for key in stored}]
    assert located.positions.tolist() == expected
    assert rows.column("v").to_pylist() == [sorted_keys[i] for i in expected]
    assert rows.schema.equals(row_schema(schema))


@pytest.mark.slow
def test_rows_of_many_batches_come_back_in_the_asked_order(tmp_path: Path) -> None:
    rows = _rows(_INT, [(i,) for i in range(200_000)])
    file = _write(tmp_path / "f", _INT, _words(_INT), rows)
    numbers = np.array([199_999, 0, 65_536, 65_535, 131_072, 7])
    assert file.rows_at(numbers).column("k0").to_pylist() == numbers.tolist()


def test_rows_that_take_much_memory_come_in_small_batches(tmp_path: Path) -> None:
    rows = _rows(_INT, [(i,) for i in range(3_000)])
    large = rows.set_column(rows.num_columns - 1, rows.schema.field(-1), pa.array(["x" * 2_000] * 3_000))
    file = _write(tmp_path / "large.lookup", _INT, _words(_INT), large)

    batches = list(file.batches(65_536))

    assert pa.concat_tables(batches) == large
    assert max(batch.nbytes for batch in batches) < 1.1 * BATCH_BYTES
    assert max(batch.num_rows for batch in file.batches(7)) <= 7


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    writer = LookupFileWriter(tmp_path / "f", row_schema(_INT), _words(_INT))
    writer.append(_rows(_INT, [(2,)]))
    writer.append(_rows(_INT, [(1,)]))
    with pytest.raises(BrokenInvariant, match="not sorted"):
        writer.finish()


@pytest.mark.parametrize("schema", [_INT, _TEXT])
def test_a_cut_file_is_noticed_at_every_length(tmp_path: Path, schema: TableSchema) -> None:
    path = tmp_path / "f"
    key: Any = "a" if schema is _TEXT else 1
    _write(path, schema, _words(schema), _rows(schema, [(key,)]))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises((BrokenLookupFile, pa.ArrowInvalid)):
            LookupFile(path, _words(schema))


def test_a_broken_entry_is_removed_and_built_again(tmp_path: Path) -> None:
    cache, words = LookupCache(str(tmp_path)), _words(_TEXT)
    rows = _rows(_TEXT, [("a",), ("b",)])
    cache.build("data-1", words, rows.schema, [rows])
    (entry,) = tmp_path.iterdir()
    for damage in (b"", b"nonsense", entry.read_bytes()[:-1], entry.read_bytes()[:-8] + b"OTHERVER"):
        entry.write_bytes(damage)
        cache = LookupCache(str(tmp_path))
        assert cache.open("data-1", words, rows.schema) is None
        assert not entry.exists()
        cache.build("data-1", words, rows.schema, [rows])
        opened = cache.open("data-1", words, rows.schema)
        assert opened is not None and opened.row_count == 2


def test_an_entry_with_rows_of_another_schema_is_removed(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,)])
    other = rows.schema.append(pa.field("w", pa.int32()))
    for cache in (LookupCache(str(tmp_path)), LookupCache(str(tmp_path))):
        cache.build("data-1", words, rows.schema, [rows])
        assert cache.open("data-1", words, rows.schema) is not None
        assert cache.open("data-1", words, other) is None
        assert list(tmp_path.iterdir()) == []


def test_an_entry_of_an_earlier_boot_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, words = LookupCache(str(tmp_path)), _words(_INT)
    rows = _rows(_INT, [(1,)])
    cache.build("data-1", words, rows.schema, [rows])
    monkeypatch.setattr("paimon_table.lookup.lookup_file.boot_id", lambda: "another boot")
    assert LookupCache(str(tmp_path)).open("data-1", words, rows.schema) is None


def test_the_files_used_longest_ago_make_room(tmp_path: Path) -> None:
    now_s = [1_000_000.0]
    words, rows = _words(_INT), _rows(_INT, [(i,) for i in range(100)])
    cache = LookupCache(str(tmp_path), clock_s=lambda: now_s[0])
    for name in ("t/a", "u/b"):
        cache.build(name, words, rows.schema, [rows])
        _use_at(tmp_path, name, now_s[0])
        now_s[0] += 1
    opened = cache.open("t/a", words, rows.schema)
    size_bytes = (tmp_path / "t/a.lookup").stat().st_size

    small = LookupCache(str(tmp_path), max_bytes=2 * size_bytes, clock_s=lambda: now_s[0])
    small.build("t/c", words, rows.schema, [rows])

    assert _names(tmp_path) == ["t/a", "t/c"]
    LookupCache(str(tmp_path), max_bytes=1).build("t/d", words, rows.schema, [rows])
    assert _names(tmp_path) == ["t/d"]
    assert opened is not None and opened.rows_at(np.array([5])).num_rows == 1
    assert cache.open("t/a", words, rows.schema) is None


def test_room_is_made_again_and_again(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(i,) for i in range(100)])
    LookupCache(str(tmp_path)).build("t/0", words, rows.schema, [rows])
    size_bytes = (tmp_path / "t/0.lookup").stat().st_size
    _use_at(tmp_path, "t/0", 1_000_000.0)

    cache = LookupCache(str(tmp_path), max_bytes=10 * size_bytes, clock_s=lambda: 1_000_000.0)
    for number in range(1, 40):
        cache.build(f"t/{number}", words, rows.schema, [rows])
        _use_at(tmp_path, f"t/{number}", 1_000_000.0 + number)

    assert _names(tmp_path) == [f"t/{number}" for number in range(30, 40)]


def test_at_most_half_of_the_free_disk_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, rows = _words(_INT), _rows(_INT, [(i,) for i in range(100)])
    cache = LookupCache(str(tmp_path), clock_s=lambda: 1_000_000.0)
    cache.build("t/0", words, rows.schema, [rows])
    size_bytes = (tmp_path / "t/0.lookup").stat().st_size
    _use_at(tmp_path, "t/0", 1_000_000.0)

    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=size_bytes))
    LookupCache(str(tmp_path), clock_s=lambda: 1_000_060.0).build("t/1", words, rows.schema, [rows])

    assert _names(tmp_path) == ["t/1"]


def test_what_nobody_used_for_a_week_goes(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,)])
    now_s, day_s = time.time(), 86_400.0
    for table, age_days in (("dropped", 8), ("quiet", 6)):
        LookupCache(str(tmp_path)).build(f"{table}/a", words, rows.schema, [rows])
        _use_at(tmp_path, f"{table}/a", now_s - age_days * day_s)

    LookupCache(str(tmp_path)).build("t/a", words, rows.schema, [rows])
    assert _names(tmp_path) == ["quiet/a", "t/a"]
    os.utime(tmp_path / "dropped", (now_s - 8 * day_s,) * 2)
    LookupCache(str(tmp_path)).build("t/b", words, rows.schema, [rows])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quiet", "t"]


def test_a_full_disk_is_told_with_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    rows = _rows(_INT, [(1,)])
    monkeypatch.setattr("paimon_table.lookup.cache.LookupFileWriter.append", write)
    with pytest.raises(MachineFailure, match=rf"{tmp_path} \(No space left on device\).*free some space there"):
        LookupCache(str(tmp_path)).build("t/a", _words(_INT), rows.schema, [rows])
    assert _names(tmp_path) == []


def test_files_of_replaced_data_files_go(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,), (2,)])
    cache = LookupCache(str(tmp_path))
    for name in ("t/a", "t/b"):
        cache.build(name, words, rows.schema, [rows])
    opened = cache.open("t/a", words, rows.schema)
    cache.discard(["t/a", "t/never built"])
    assert _names(tmp_path) == ["t/b"]
    assert cache.open("t/a", words, rows.schema) is None
    assert opened is not None and opened.rows_at(np.array([1])).num_rows == 1


def test_a_file_that_was_just_built_is_good_though_others_delete_it(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,), (2,)])
    built = LookupCache(str(tmp_path)).build("t/a", words, rows.schema, [rows])
    for path in tmp_path.rglob("*.lookup"):
        path.unlink()
    assert built.rows_at(np.array([1])).num_rows == 1


def test_trouble_of_the_data_file_is_not_taken_for_that_of_the_disk(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.Table]:
        yield _rows(_INT, [(1,)])
        raise OSError("slow down")

    with pytest.raises(OSError, match="slow down"):
        LookupCache(str(tmp_path)).build("t/a", _words(_INT), _rows(_INT, []).schema, batches())
    assert _names(tmp_path) == []


@pytest.mark.parametrize("removed", ["", "t"])
def test_directories_may_go_at_any_moment(tmp_path: Path, removed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,)])
    root = tmp_path / "root"
    lost: list[Path] = []

    def open_writer(path: Path, *rest: Any) -> LookupFileWriter:
        if not lost:
            lost.append(path)
            shutil.rmtree(root / removed)
        return LookupFileWriter(path, *rest)

    cache = LookupCache(str(root))
    monkeypatch.setattr("paimon_table.lookup.cache.LookupFileWriter", open_writer)
    assert cache.build("t/a", words, rows.schema, [rows]).row_count == 1
    shutil.rmtree(root)
    cache._evict(root / "t" / "a.lookup", time.time())
    assert cache.open("t/a", words, rows.schema) is None


def _use_at(directory: Path, name: str, at_s: float) -> None:
    os.utime(directory / f"{name}.lookup", (at_s, at_s))


def _names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)).removesuffix(".lookup") for path in directory.rglob("*.lookup"))


def test_temporary_files_of_dead_processes_go(tmp_path: Path) -> None:
    words, rows = _words(_INT), _rows(_INT, [(1,)])
    for name, age_s in (("old", 7200), ("young", 10)):
        path = tmp_path / f".{name}.tmp"
        path.write_bytes(b"x")
        os.utime(path, (os.stat(path).st_mtime - age_s,) * 2)
    LookupCache(str(tmp_path)).build("data-1", words, rows.schema, [rows])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".young.tmp", "data-1.lookup"]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    rows = _rows(_INT, [(1,), (2,)])
    with pytest.raises(BrokenInvariant):
        LookupCache(str(tmp_path)).build("data-1", _words(_INT), rows.schema, [rows, rows])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("schema", [_INT, _TEXT])
def test_no_flipped_bit_of_a_lookup_file_gives_other_rows(tmp_path: Path, schema: TableSchema) -> None:
    words = _words(schema)
    keys: list[tuple[Any, ...]] = [(i if schema is _INT else f"key {i}",) for i in range(50)]
    rows = _rows(schema, keys)
    path = tmp_path / "f.lookup"
    _write(path, schema, words, rows, pieces=2)
    whole = path.read_bytes()

    def read() -> tuple[list[int], list[Any], list[Any]]:
        file = LookupFile(path, words)
        located = file.locate(ProbeKeys(rows, words), 0, rows.num_rows)
        found = file.rows_at(located.row_numbers).to_pylist()
        return located.positions.tolist(), found, [row for b in file.batches(7) for row in b.to_pylist()]

    expected = read()
    noticed = 0
    for bit in range(0, 8 * len(whole), 61):
        path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
        try:
            assert read() == expected
        except (BrokenLookupFile, pa.ArrowInvalid, OSError):
            noticed += 1
    assert noticed > 0
