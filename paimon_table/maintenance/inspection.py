"""Checks whether the files of a table match its metadata, and repairs hint files.

The inspection checks that

- schema and snapshot files have no gaps and can be read,
- manifests can be read, and have the sizes and counts that the metadata states,
- data, changelog and index files exist with the sizes in the manifests,
- the index files of the newest snapshot have the content that was written,
- optionally, the rows of the newest snapshot can be read. Without this option the inspection reads no data files.

It always verifies the table's own checksums of snapshots, manifests and index files. It verifies the checksums of data
files if it reads rows.

It repairs only hint files, whose content follows from the names of the other files in their directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.errors import ConfigError, CorruptFile, TidemarkError
from paimon_table.maintenance.damage import Damage, Inspection, Needs, WrongHint
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.needed_files import NeededFile, NeededFiles
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.metadata.holders import Holder, Holding, branches, holders, names_in
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.schema_files import read_schema, schema_ids
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import load_state
from paimon_table.options.reading_options import reading_options
from paimon_table.schema.table_schema import TableSchema
from paimon_table.side_by_side import in_parallel, waits_at_once
from paimon_table.storage.file_io import FileIO, numbers_of

_MOST_MISSING = 1000


@dataclass(frozen=True, slots=True)
class OpenedDespiteDamage:
    """A table of which at least one schema can be read."""

    ctx: TableContext
    """The table with its newest readable schema."""
    damages: tuple[Damage, ...]
    """The damage of the table's schema files."""


def open_despite_damage(io: FileIO, root: str) -> OpenedDespiteDamage:
    """Raises ConfigError without a table, CorruptFile if no version of its schema can be read."""
    paths = TablePaths(root)
    ids = schema_ids(io, paths)
    if not ids:
        raise ConfigError(f"there is no table at {root}; check the path")
    schemas, damages = _schemas(io, paths, ids)
    if not schemas:
        raise CorruptFile(
            f"no schema of {root} can be read: {damages[-1].what}; restore {paths.schema_dir} from a backup"
        )
    newest = schemas[max(schemas)]
    return OpenedDespiteDamage(TableContext(io, paths, newest, reading_options(newest), schemas), tuple(damages))


def _schemas(io: FileIO, paths: TablePaths, ids: list[int]) -> tuple[dict[int, TableSchema], list[Damage]]:
    schemas: dict[int, TableSchema] = {}
    damages = []
    for schema_id in sorted({*ids, *_missing([-1, *ids])}):
        try:
            schemas[schema_id] = read_schema(io, paths, schema_id)
        except FileNotFoundError:
            damages.append(Damage(paths.schema_file(schema_id), "is missing"))
        except (TidemarkError, OSError) as error:
            damages.append(Damage(paths.schema_file(schema_id), _unreadable(error)))
    return schemas, damages


def inspect(opened: OpenedDespiteDamage, job: Job, *, reads_rows: bool = False) -> Inspection:
    """Inspect everything; changes nothing. Concurrent commits and expiries of others are not damage."""
    ctx = opened.ctx
    io, paths = ctx.io, ctx.paths
    needed = NeededFiles(ctx)
    for branch, branch_paths in branches(io, paths).items():
        ids = schema_ids(io, branch_paths)
        for damage in _schemas(io, branch_paths, ids)[1] if ids else ():
            needed.note(damage.path, f"{damage.what} (branch {branch})")
    found = list(holders(io, paths))
    job.progress.begin("read metadata", len(found), "snapshots")
    for holder in found:
        _read(io, holder, needed)
        job.progress.advance(1)
    needed.end_chain()
    ids_here = _ids(found)
    for number in _missing(ids_here):
        needed.note(paths.snapshot_file(number), "is missing", _snapshot_holder(paths, number))
    damages = [*opened.damages, *needed.damages.values(), *_file_damages(ctx, needed.files, job)]
    every = tuple(sorted({*ids_here, *_missing(ids_here)}))
    result = Inspection(tuple(damages), tuple(_wrong_hints(io, paths)), every, len(needed.files))
    if result.newest_is_whole and result.newest_id is not None:
        inside = _content_damages(ctx, result.newest_id, job, reads_rows)
        result = Inspection((*result.damages, *inside), result.hints, every, result.file_count)
    return result


def mend_hints(io: FileIO, hints: Iterable[WrongHint]) -> None:
    """Write the correct hints. No information is lost, because hints follow from the names of the files next to
    them."""
    for hint in hints:
        io.write(hint.path, str(hint.right).encode())


# ---------------------------------------------------------------- metadata


def _read(io: FileIO, holder: Holder, needed: NeededFiles) -> None:
    try:
        snapshot = holder.read(io)
        if holder.kind is Holding.SNAPSHOT and snapshot.id != int(holder.name):
            needed.note(holder.path, f"has the content of snapshot {snapshot.id}", holder)
            return
    except FileNotFoundError:
        return  # expired or deleted since
    except (TidemarkError, OSError) as error:
        needed.note(holder.path, _unreadable(error), holder)
        return
    before = set(needed.damages)
    needed.add(holder, snapshot)
    if set(needed.damages) - before and not io.exists(holder.path):
        for path in set(needed.damages) - before:
            del needed.damages[path]  # expired since, with its files
        needed.end_chain()


def _ids(found: Iterable[Holder]) -> list[int]:
    return [int(one.name) for one in found if one.kind is Holding.SNAPSHOT and one.branch is None]


def _missing(ids: list[int]) -> list[int]:
    """The missing numbers; only the first ones if a stray file name makes the gap very large."""
    there = set(ids)
    left_out = (number for number in range(min(ids), max(ids)) if number not in there) if ids else ()
    return list(islice(left_out, _MOST_MISSING))


def _snapshot_holder(paths: TablePaths, number: int) -> Holder:
    return Holder(Holding.SNAPSHOT, str(number), paths.snapshot_file(number))


def _unreadable(error: Exception) -> str:
    return f"is not readable: {error}"


# ---------------------------------------------------------------- files


def _file_damages(ctx: TableContext, files: Mapping[str, NeededFile], job: Job) -> list[Damage]:
    """Files that are missing or have another size; lists every directory once."""
    by_directory: dict[str, list[NeededFile]] = {}
    for file in files.values():
        by_directory.setdefault(file.path.rpartition("/")[0], []).append(file)
    job.progress.begin("look for files", len(files), "files")
    damages = []
    looks = in_parallel(partial(_sizes, ctx.io), by_directory, waits_at_once(ctx.paths.root))
    for directory, sizes in looks:
        for file in by_directory[directory]:
            size = sizes.get(file.path[len(directory) + 1 :])
            what = None
            if size is None:
                what = "is missing"
            elif file.size_bytes is not None and size != file.size_bytes:
                what = f"has {size:,} bytes instead of {file.size_bytes:,}"
            if what is not None and _is_still_needed(ctx, file.needs):
                damages.append(Damage(file.path, what, file.needs, file.bucket.partition, file.bucket.bucket))
        job.progress.advance(len(by_directory[directory]))
    return damages


def _sizes(io: FileIO, directory: str) -> dict[str, int]:
    try:
        return {file.name: file.size_bytes for file in io.list_files(directory)}
    except NotADirectoryError:
        return {}


def _is_still_needed(ctx: TableContext, needs: Needs) -> bool:
    """Whether anything that needs the file still exists."""
    if needs.others or any(branch is not None for branch, _, _ in needs.spans):
        return True
    return any(ctx.io.exists(ctx.paths.snapshot_file(last)) for _, _, last in needs.spans)


def _content_damages(ctx: TableContext, snapshot_id: int, job: Job, reads_rows: bool) -> list[Damage]:
    """Damaged index files of one snapshot, and damaged data files if rows are read."""
    holder = _snapshot_holder(ctx.paths, snapshot_id)
    snapshot = ctx.snapshots.find(snapshot_id)
    if snapshot is None:
        return []
    state = load_state(ctx.io, ctx.paths, snapshot)
    damages = []
    for entry in state.index:
        path = entry.file.external_path or ctx.paths.index_file(entry.file.file_name)
        try:
            if entry.file.index_type == HASH:
                read_hashes(ctx.io, ctx.paths, entry.file)
            elif entry.file.index_type == DELETION_VECTORS:
                read_vectors(ctx.io, ctx.paths, [entry.file])
        except TidemarkError as error:
            damages.append(_damage(path, error, holder, entry.bucket.partition, entry.bucket.bucket))
    files = [(bucket, file) for bucket, of_bucket in state.files.items() for file in of_bucket] if reads_rows else []
    if files:
        job.progress.begin("read rows", sum(file.row_count for _, file in files))
    for bucket, file in files:
        try:
            values = ctx.partition_values(bucket.partition)
            for rows in iter_key_value_batches(ctx, ctx.bucket_dir(bucket), file, None, values):
                job.progress.advance(rows.num_rows)
        except TidemarkError as error:
            damages.append(_damage(ctx.data_file(bucket, file), error, holder, bucket.partition, bucket.bucket))
    return damages


def _damage(path: str, error: Exception, holder: Holder, partition: bytes, bucket: int) -> Damage:
    needs = Needs()
    needs.add(holder)
    return Damage(path, _unreadable(error), needs, partition, bucket)


# ---------------------------------------------------------------- hints


def _wrong_hints(io: FileIO, paths: TablePaths) -> list[WrongHint]:
    """The wrong hints of snapshots and changelogs, of the table and of its branches.

    A hint that exists must be right. A missing hint is wrong only if it is ``LATEST`` of the table's own snapshots.
    """
    wrong = []
    for one in (paths, *branches(io, paths).values()):
        for kind in ("snapshot", "changelog"):
            directory = f"{one.root}/{kind}"
            names = names_in(io, directory)
            ids = numbers_of(names, f"{kind}-")
            for name, right in (("EARLIEST", min(ids, default=0)), ("LATEST", max(ids, default=0))):
                found = _text(io, f"{directory}/{name}") if name in names else None
                is_expected = one is paths and kind == "snapshot" and name == "LATEST"
                if ids and found != str(right) and (found is not None or is_expected):
                    wrong.append(WrongHint(f"{directory}/{name}", found, right))
    return wrong


def _text(io: FileIO, path: str) -> str:
    try:
        return io.read(path).decode(errors="replace")
    except OSError as error:
        return f"({error})"
