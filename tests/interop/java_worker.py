"""Process that holds the JVM: drives Java Paimon's own core and answers requests, one JSON line each.

Started by ``java_paimon.JavaPaimon``; its arguments are the class path entries. Values travel in the plain form of
``tests.support.plain_values``, so nothing of Tidemark's engine takes part in what Java reads and writes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import jpype

from paimon_table.types import DataType, Root, parse_type
from tests.support import plain_values as plain

Json = dict[str, Any]


class JavaTables:
    """The commands. Every method takes JSON-able arguments and gives a JSON-able answer."""

    def __init__(self, io_dir: str) -> None:
        """``io_dir`` is for the sort buffers and lookup files of Java's writers."""
        core = jpype.JPackage("org.apache.paimon")
        self.java = jpype.JPackage("java")
        self.core = core
        self.file_io = core.fs.local.LocalFileIO.create()
        self.utils = jpype.JClass("org.apache.paimon.utils.InternalRowUtils")
        self.json = jpype.JClass("org.apache.paimon.utils.JsonSerdeUtil")
        self.row_kind = jpype.JClass("org.apache.paimon.types.RowKind")
        self.data_type_class = jpype.JClass("org.apache.paimon.types.DataType").class_
        self.io_dir = io_dir
        self.prepared: tuple[ExitStack, Any, Any, int] | None = None
        """A writer's resources, its committer, its messages and their identifier."""

    # ------------------------------------------------------------ opening

    def _path(self, path: str) -> Any:
        return self.core.fs.Path(path)

    def _schemas(self, path: str) -> Any:
        return self.core.schema.SchemaManager(self.file_io, self._path(path))

    def _table(self, path: str, options: dict[str, str] | None = None) -> Any:
        """The table with dynamic options; with the option ``branch`` that branch, of its own schema.

        ``path`` may be the options of a catalog as JSON, with the name of the table as ``table``.
        """
        if path.startswith("{"):
            table = self._served(json.loads(path))
        else:
            table = self.core.table.FileStoreTableFactory.create(self.file_io, self._path(path))
        others = dict(options or {})
        branch = others.pop("branch", None)
        if branch is not None:
            table = table.switchToBranch(branch)
        return table.copy(self._options(others)) if others else table

    def _served(self, told: dict[str, str]) -> Any:
        database, name = told.pop("table").split(".")
        options = self.core.options.Options.fromMap(self._options(told))
        catalog = self.core.catalog.CatalogFactory.createCatalog(self.core.catalog.CatalogContext.create(options))
        return catalog.getTable(self.core.catalog.Identifier.create(database, name))

    def _options(self, options: dict[str, str]) -> Any:
        out = self.java.util.HashMap()
        for key, value in options.items():
            out.put(key, value)
        return out

    def _types(self, row_type: Any) -> list[DataType]:
        return [self._type(field.type()) for field in row_type.getFields()]

    def _type(self, java_type: Any) -> DataType:
        return parse_type(json.loads(str(self.json.toFlatJson(java_type))))

    # ------------------------------------------------------------ values

    def _to_java(self, value: Any, t: DataType) -> Any:
        if value is None:
            return None
        match t.root:
            case Root.BOOLEAN:
                return self.java.lang.Boolean.valueOf(bool(value))
            case Root.TINYINT:
                return self.java.lang.Byte.valueOf(jpype.JByte(value))
            case Root.SMALLINT:
                return self.java.lang.Short.valueOf(jpype.JShort(value))
            case Root.INT:
                return self.java.lang.Integer.valueOf(jpype.JInt(value))
            case Root.BIGINT:
                return self.java.lang.Long.valueOf(jpype.JLong(value))
            case Root.FLOAT:
                return self.java.lang.Float.valueOf(jpype.JFloat(float(value)))
            case Root.DOUBLE:
                return self.java.lang.Double.valueOf(jpype.JDouble(float(value)))
            case Root.DECIMAL:
                number = self.java.math.BigDecimal(str(value))
                return self.core.data.Decimal.fromBigDecimal(number, t.precision, t.scale)
            case Root.CHAR | Root.VARCHAR:
                return self.core.data.BinaryString.fromBytes(self._bytes(str(value).encode()))
            case Root.BINARY | Root.VARBINARY:
                return self._bytes(bytes.fromhex(value.removeprefix("0x")))
            case Root.DATE:
                return self.java.lang.Integer.valueOf(jpype.JInt(plain.date_days(value)))
            case Root.TIME:
                return self.java.lang.Integer.valueOf(jpype.JInt(plain.time_millis(value)))
            case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
                millis, nanos = divmod(plain.timestamp_value(value, "ns"), 10**6)
                return self.core.data.Timestamp.fromEpochMillis(millis, nanos)
            case _:
                return self._nested_to_java(value, t)

    def _nested_to_java(self, value: Any, t: DataType) -> Any:
        match t.root:
            case Root.ARRAY:
                assert t.element is not None
                items = [self._to_java(item, t.element) for item in value]
                return self.core.data.GenericArray(jpype.JArray(self.java.lang.Object)(items))
            case Root.MAP | Root.MULTISET:
                key_type, value_type = plain.map_types(t)
                entries = self.java.util.LinkedHashMap()
                for key, item in value.items() if isinstance(value, dict) else value:
                    entries.put(self._to_java(key, key_type), self._to_java(item, value_type))
                return self.core.data.GenericMap(entries)
            case _:
                return self._row("+I", value, [field.type for field in t.fields])

    def _bytes(self, data: bytes) -> Any:
        return jpype.JArray(jpype.JByte)([b - 256 if b > 127 else b for b in data])

    def _row(self, kind: str, values: list[Any], types: list[DataType]) -> Any:
        row = self.core.data.GenericRow(self.row_kind.fromShortString(kind), len(types))
        for i, (value, t) in enumerate(zip(values, types, strict=True)):
            row.setField(i, self._to_java(value, t))
        return row

    def _to_plain(self, value: Any, t: DataType, java_type: Any) -> Any:
        if value is None:
            return None
        match t.root:
            case Root.BOOLEAN:
                return bool(value)
            case Root.TINYINT | Root.SMALLINT | Root.INT | Root.BIGINT:
                return int(value)
            case Root.FLOAT | Root.DOUBLE:
                return plain.float_plain(float(value))
            case Root.DECIMAL:
                return str(value.toBigDecimal().toPlainString())
            case Root.CHAR | Root.VARCHAR:
                return bytes(value.toBytes()).decode()
            case Root.BINARY | Root.VARBINARY:
                return "0x" + bytes(value).hex()
            case Root.DATE:
                return plain.date_text(int(value))
            case Root.TIME:
                return plain.time_text(int(value))
            case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
                nanos = int(value.getMillisecond()) * 10**6 + int(value.getNanoOfMillisecond())
                return plain.timestamp_text(nanos, "ns", t.precision or 0)
            case _:
                return self._nested_to_plain(value, t, java_type)

    def _array_to_plain(self, array: Any, t: DataType, java_type: Any) -> list[Any]:
        get = self.utils.get
        return [self._to_plain(get(array, i, java_type), t, java_type) for i in range(array.size())]

    def _nested_to_plain(self, value: Any, t: DataType, java_type: Any) -> Any:
        match t.root:
            case Root.ARRAY:
                assert t.element is not None
                return self._array_to_plain(value, t.element, java_type.getElementType())
            case Root.MAP | Root.MULTISET:
                key_type, value_type = plain.map_types(t)
                if t.root is Root.MULTISET:
                    java_key, java_value = java_type.getElementType(), self.core.types.IntType(False)
                else:
                    java_key, java_value = java_type.getKeyType(), java_type.getValueType()
                keys = self._array_to_plain(value.keyArray(), key_type, java_key)
                values = self._array_to_plain(value.valueArray(), value_type, java_value)
                return plain.sorted_pairs(zip(keys, values, strict=True))
            case _:
                return self._values(value, java_type)

    def _values(self, row: Any, row_type: Any) -> list[Any]:
        java_types = [field.type() for field in row_type.getFields()]
        values = (self.utils.get(row, i, java_type) for i, java_type in enumerate(java_types))
        return [self._to_plain(v, self._type(jt), jt) for v, jt in zip(values, java_types, strict=True)]

    # ------------------------------------------------------------ commands

    def create_table(
        self, path: str, columns: list[Any], primary_key: list[str], partition_by: list[str], options: dict[str, str]
    ) -> Json:
        builder = self.core.schema.Schema.newBuilder()
        for name, type_json in columns:
            builder.column(name, self.json.fromJson(json.dumps(type_json), self.data_type_class))
        builder.partitionKeys(self.java.util.ArrayList(partition_by))
        builder.primaryKey(self.java.util.ArrayList(primary_key))
        builder.options(self._options(options))
        self._schemas(path).createTable(builder.build())
        return {}

    def alter(self, path: str, changes: list[list[Any]]) -> Json:
        """Changes as ``JavaPaimon.alter`` describes them, types in their JSON form."""
        change = self.core.schema.SchemaChange
        out = self.java.util.ArrayList()
        for what, *args in changes:
            if what in ("add", "type"):
                java_type = self.json.fromJson(json.dumps(args[1]), self.data_type_class)
                out.add((change.addColumn if what == "add" else change.updateColumnType)(args[0], java_type))
            elif what == "rename":
                out.add(change.renameColumn(*args))
            elif what == "default":
                out.add(change.updateColumnDefaultValue([args[0]], args[1]))
            elif what == "drop":
                out.add(change.dropColumn(*args))
            else:
                out.add(change.setOption(*args) if args[1] is not None else change.removeOption(args[0]))
        self._schemas(path).commitChanges(out)
        return {}

    def write(
        self,
        path: str,
        rows: list[list[Any]],
        commit_user: str,
        identifier: int,
        compact: bool = False,
        options: dict[str, str] | None = None,
    ) -> Json:
        """One commit of rows ``[kind, values...]``; ``compact`` compacts every bucket fully in the same commit."""
        with self._writer(path, commit_user, options) as opened:
            self._commit(*opened, rows, identifier, compact)
        return {}

    def prepare(self, path: str, rows: list[list[Any]], commit_user: str, identifier: int) -> Json:
        """Write rows without the commit, which ``commit_prepared`` makes; of tables with buckets by the row alone."""
        resources = ExitStack()
        table, write, commit, places = resources.enter_context(self._writer(path, commit_user))
        assert places is None
        types = self._types(table.rowType())
        for kind, *values in rows:
            write.write(self._row(kind, values, types))
        self.prepared = (resources, commit, write.prepareCommit(True, identifier), identifier)
        return {}

    def commit_prepared(self) -> Json:
        assert self.prepared is not None
        resources, commit, messages, identifier = self.prepared
        self.prepared = None
        with resources:
            commit.commit(identifier, messages)
        return {}

    def play(self, path: str, commits: list[list[Any]], commit_user: str, keeps_writer: bool) -> str | None:
        """Commits ``[rows, compact]`` with identifiers from 1, by one writer or by a new one each.

        Stops at the first that fails and gives its error.
        """
        opened: tuple[Any, Any, Any, _Places | None]
        with ExitStack() as kept:
            for identifier, (rows, compact) in enumerate(commits, start=1):
                if not keeps_writer or identifier == 1:
                    kept.close()
                    opened = kept.enter_context(self._writer(path, commit_user))
                try:
                    self._commit(*opened, rows, identifier, compact)
                except jpype.JException as error:
                    return _causes(error)
        return None

    @contextmanager
    def _writer(
        self, path: str, commit_user: str, options: dict[str, str] | None = None
    ) -> Iterator[tuple[Any, Any, Any, _Places | None]]:
        table = self._table(path, options)
        builder = table.newStreamWriteBuilder().withCommitUser(commit_user)
        write, commit = builder.newWrite(), builder.newCommit()
        write.withIOManager(self.core.disk.IOManager.create(self.io_dir))
        places: _Places | None = None
        match str(table.bucketMode()):
            case "HASH_DYNAMIC":
                places = _DynamicPlaces(self.core, table, commit_user)
            case "KEY_DYNAMIC":
                places = _MovingPlaces(self.core, table, self.io_dir)
        try:
            yield table, write, commit, places
        finally:
            if places is not None:
                places.close()
            write.close()
            commit.close()

    def overwrite(
        self, path: str, rows: list[list[Any]], partition: dict[str, str], options: dict[str, str] | None = None
    ) -> Json:
        """INSERT OVERWRITE by one task; rows that move between partitions go to the first bucket of theirs."""
        table = self._table(path, options)
        builder = table.newBatchWriteBuilder().withOverwrite(self._options(partition))
        write, commit = builder.newWrite(), builder.newCommit()
        write.withIOManager(self.core.disk.IOManager.create(self.io_dir))
        settings, types = table.coreOptions(), self._types(table.rowType())
        target, most = settings.dynamicBucketTargetRowNum(), settings.dynamicBucketMaxBuckets()
        assigner = self.core.index.SimpleHashBucketAssigner(1, 0, target, most)
        keys = self.core.table.sink.RowPartitionKeyExtractor(table.schema())
        for kind, *values in rows:
            row = self._row(kind, values, types)
            match str(table.bucketMode()):
                case "HASH_DYNAMIC":
                    hashed = int(keys.trimmedPrimaryKey(row).hashCode())
                    write.write(row, int(assigner.assign(keys.partition(row).copy(), hashed)))
                case "KEY_DYNAMIC":
                    write.write(row, 0)
                case _:
                    write.write(row)
        commit.commit(write.prepareCommit())
        write.close()
        commit.close()
        return {}

    def _commit(
        self,
        table: Any,
        write: Any,
        commit: Any,
        places: _Places | None,
        rows: list[list[Any]],
        identifier: int,
        compact: bool,
    ) -> None:
        types = self._types(table.rowType())
        buckets: dict[tuple[str, int], Any] = {}

        def emit(row: Any, bucket: Any) -> None:
            write.write(row, int(bucket))
            partition = write.getPartition(row).copy()
            buckets[(str(partition), int(bucket))] = partition

        for kind, *values in rows:
            row = self._row(kind, values, types)
            if places is None:
                emit(row, write.getBucket(row))
            else:
                places.put(row, emit)
        if compact:
            for entry in table.newSnapshotReader().bucketEntries():
                buckets[(str(entry.partition()), entry.bucket())] = entry.partition()
            for (_, bucket), partition in buckets.items():
                write.compact(partition, bucket, True)
        commit.commit(identifier, write.prepareCommit(True, identifier))
        if places is not None:
            places.prepare_commit(identifier)

    def pack(self, path: str, commit_user: str, identifier: int) -> int:
        """Compact a table without buckets as a coordinator does; gives the number of its tasks."""
        table = self._table(path)
        tasks = list(self.core.append.AppendCompactCoordinator(table, False).run())
        with self._writer(path, commit_user) as (_, _, commit, _):
            write = table.store().newWrite(commit_user)
            messages = self.java.util.ArrayList()
            for task in tasks:
                messages.add(task.doCompact(table, write))
            if tasks:
                commit.commit(identifier, messages)
            write.close()
        return len(tasks)

    def delete(self, path: str, column: str, values: list[Any], commit_user: str, identifier: int) -> int:
        """Mark rows by values of a column in deletion vectors, as Spark's DELETE does; gives how many.

        Each file is read without its vector, so that rows are counted by their places.
        """
        table = self._table(path)
        snapshot = table.snapshotManager().latestSnapshot()
        if snapshot is None:
            return 0
        at = int(table.rowType().getFieldNames().indexOf(column))
        maintainers: dict[tuple[str, int], tuple[Any, Any]] = {}
        count = 0
        for split in table.newSnapshotReader().read().dataSplits():
            for file in split.dataFiles():
                places = [place for place, row in enumerate(self._stored(table, split, file)) if row[1 + at] in values]
                if places:
                    key = (str(split.partition()), int(split.bucket()))
                    if key not in maintainers:
                        maintainers[key] = split, self._deletions(table, snapshot, split)
                    maintainers[key][1].notifyNewDeletionVector(file.fileName(), self._vector(table, places))
                    count += len(places)
        messages = [self._marked(split, maintainer.persist()) for split, maintainer in maintainers.values()]
        if messages:
            commit = table.newStreamWriteBuilder().withCommitUser(commit_user).newCommit()
            commit.commit(identifier, self._list(messages))
            commit.close()
        return count

    def _stored(self, table: Any, split: Any, file: Any) -> Iterator[list[Any]]:
        """The rows of a file, deleted ones too."""
        one = self.core.table.source.DataSplit.builder().withSnapshot(split.snapshotId())
        one = one.withPartition(split.partition()).withBucket(split.bucket()).withBucketPath(split.bucketPath())
        one = one.withTotalBuckets(split.totalBuckets()).withDataFiles(self._list([file])).rawConvertible(True)
        return self._rows(table.newRead().createReader(one.isStreaming(False).build()), table.rowType())

    def _deletions(self, table: Any, snapshot: Any, split: Any) -> Any:
        """What keeps the deletion vectors of a bucket."""
        kinds = self.core.deletionvectors.append.BaseAppendDeleteFileMaintainer
        handler = table.store().newIndexFileHandler()
        if str(table.bucketMode()) == "BUCKET_UNAWARE":
            return kinds.forUnawareAppend(handler, snapshot, split.partition())
        return kinds.forBucketedAppend(handler, snapshot, split.partition(), split.bucket())

    def _vector(self, table: Any, places: list[int]) -> Any:
        kinds = self.core.deletionvectors
        is_wide = bool(table.coreOptions().deletionVectorBitmap64())
        vector = kinds.Bitmap64DeletionVector() if is_wide else kinds.BitmapDeletionVector()
        for place in places:
            vector.delete(jpype.JLong(place))
        return vector

    def _marked(self, split: Any, entries: Any) -> Any:
        """The message about index files that came and went."""
        files: dict[str, list[Any]] = {"ADD": [], "DELETE": []}
        for entry in entries:
            files[str(entry.kind().name())].append(entry.indexFile())
        nothing, io = self._list([]), self.core.io
        increment = io.DataIncrement(nothing, nothing, nothing, self._list(files["ADD"]), self._list(files["DELETE"]))
        of = (split.partition(), split.bucket(), split.totalBuckets())
        return self.core.table.sink.CommitMessageImpl(*of, increment, io.CompactIncrement.emptyIncrement())

    def compact_postponed(self, path: str, commit_user: str, identifier: int) -> Json:
        """Give postponed rows their buckets as Java's job does: row by row in order of creation.

        A new partition gets one; those that have some keep their number.
        """
        table, messages = self._table(path), self.java.util.ArrayList()
        known = self.core.table.PostponeUtils.getKnownNumBuckets(table)
        for split in table.newSnapshotReader().withBucket(-2).read().dataSplits():
            number = known.getOrDefault(split.partition(), self.java.lang.Integer.valueOf(1))
            real = self.core.table.PostponeUtils.tableForFixBucketWrite(table).copy(
                self._options({"bucket": str(number)})
            )
            write = real.newStreamWriteBuilder().withCommitUser(commit_user).newWrite()
            write.withIOManager(self.core.disk.IOManager.create(self.io_dir))
            files = sorted(split.dataFiles(), key=lambda file: int(file.creationTimeEpochMillis()))
            for file in files:
                one = self.core.table.source.DataSplit.builder().withPartition(split.partition())
                one = one.withBucket(split.bucket()).withBucketPath(split.bucketPath()).isStreaming(False)
                one = one.withTotalBuckets(split.totalBuckets()).withDataFiles(self._list([file])).build()
                rows = table.newRead().createReader(one).toCloseableIterator()
                while rows.hasNext():
                    write.write(rows.next())
                rows.close()
            messages.add(self._compaction(split, self._list(files), self._list([])))
            for message in write.prepareCommit(True, identifier):
                messages.add(self._compaction(message, self._list([]), message.newFilesIncrement().newFiles()))
            write.close()
        committed = self.core.table.PostponeUtils.tableForCommit(table)
        commit = committed.newStreamWriteBuilder().withCommitUser(commit_user).newCommit()
        commit.commit(identifier, messages)
        commit.close()
        return {}

    def _compaction(self, of: Any, before: Any, after: Any) -> Any:
        """A message about the place of a split or of another message."""
        io, sink = self.core.io, self.core.table.sink
        increment = io.CompactIncrement(before, after, self._list([]))
        nothing = io.DataIncrement.emptyIncrement()
        return sink.CommitMessageImpl(of.partition(), of.bucket(), of.totalBuckets(), nothing, increment)

    def _list(self, items: list[Any]) -> Any:
        out = self.java.util.ArrayList()
        for item in items:
            out.add(item)
        return out

    def drop_partitions(self, path: str, partitions: list[dict[str, str]]) -> Json:
        """Drop partitions by the texts of their values."""
        commit = self._table(path).newBatchWriteBuilder().newCommit()
        commit.truncatePartitions(self._list([self._options(partition) for partition in partitions]))
        commit.close()
        return {}

    def truncate(self, path: str) -> Json:
        """Take all rows out of the table."""
        commit = self._table(path).newBatchWriteBuilder().newCommit()
        commit.truncateTable()
        commit.close()
        return {}

    def expire(self, path: str, options: dict[str, str]) -> Json:
        """Snapshots, then long-lived changelogs, as the committer does after a commit with these options."""
        table = self._table(path, options)
        config = table.coreOptions().expireConfig()
        snapshots = int(table.newExpireSnapshots().config(config).expire())
        is_longer = bool(table.coreOptions().changelogLifecycleDecoupled())
        changelogs = int(table.newExpireChangelog().config(config).expire()) if is_longer else 0
        return {"snapshots": snapshots, "changelogs": changelogs}

    def remove_orphans(self, path: str, older_than_ms: int) -> list[str]:
        """Paths of the files that are gone, below the table."""
        clean = self.core.operation.LocalOrphanFilesClean(self._table(path), older_than_ms).clean()
        return sorted(str(file.toUri().getPath()).removeprefix(f"{path}/") for file in clean.getDeletedFilesPath())

    def create_tag(self, path: str, name: str, snapshot_id: int, retained_s: int | None) -> Json:
        seconds = None if retained_s is None else self.java.time.Duration.ofSeconds(retained_s)
        self._table(path).createTag(name, jpype.JLong(snapshot_id), seconds)
        return {}

    def delete_tag(self, path: str, name: str) -> Json:
        self._table(path).deleteTag(name)
        return {}

    def create_branch(self, path: str, name: str, tag: str | None) -> Json:
        table = self._table(path)
        table.createBranch(name) if tag is None else table.createBranch(name, tag)
        return {}

    def fast_forward(self, path: str, name: str) -> Json:
        self._table(path).fastForward(name)
        return {}

    def reset_consumer(self, path: str, name: str, next_snapshot: int) -> Json:
        consumers = self.core.consumer.ConsumerManager(self.file_io, self._path(path))
        consumers.resetConsumer(name, self.core.consumer.Consumer(jpype.JLong(next_snapshot)))
        return {}

    def rollback(self, path: str, snapshot_id: int | None, tag: str | None) -> Json:
        table = self._table(path)
        table.rollbackTo(tag) if snapshot_id is None else table.rollbackTo(jpype.JLong(snapshot_id))
        return {}

    def maintain(self, path: str, options: dict[str, str]) -> Json:
        """All that the committer does after a commit: tags, partitions, consumers, snapshots."""
        table = self._table(path, options)
        commit = table.newCommit("java-maintenance").ignoreEmptyCommit(True).expireForEmptyCommit(True)
        commit.commit(jpype.JLong(1), self.java.util.ArrayList())
        commit.close()
        return {}

    def option_names(self) -> list[str]:
        """The names of all options of tables."""
        declared = self.core.CoreOptions.getOptions()
        return [
            str(name) for option in declared for name in (option.key(), *(f.getKey() for f in option.fallbackKeys()))
        ]

    def statistics(self, path: str) -> Json | None:
        """What a reader finds as the statistics of the newest snapshot."""
        found = self._table(path).statistics()
        return json.loads(str(found.get().toJson())) if found.isPresent() else None

    def buckets(self, path: str, rows: list[list[Any]]) -> list[int]:
        """The bucket that Java gives to each row."""
        table = self._table(path)
        types = self._types(table.rowType())
        write = table.newStreamWriteBuilder().newWrite()
        try:
            return [int(write.getBucket(self._row(kind, values, types))) for kind, *values in rows]
        finally:
            write.close()

    def read(
        self,
        path: str,
        options: dict[str, str] | None = None,
        columns: list[str] | None = None,
        equal: dict[str, Any] | None = None,
    ) -> Json:
        """Content as a batch read gives it: rows ``[kind, values...]``.

        ``equal`` has columns with the value that rows must have; Java may leave out less than it says.
        """
        table = self._table(path, options)
        builder = table.newReadBuilder()
        row_type = table.rowType()
        predicates = self.core.predicate.PredicateBuilder(row_type)
        for name, value in (equal or {}).items():
            column = int(predicates.indexOf(name))
            wanted = self._to_java(value, self._types(row_type)[column])
            builder.withFilter(predicates.equal(column, wanted))
        if columns is not None:
            row_type = row_type.project(self.java.util.ArrayList(columns))
            builder.withReadType(row_type)
        reader = builder.newRead().createReader(builder.newScan().plan())
        return {"rows": list(self._rows(reader, row_type))}

    def _rows(self, reader: Any, row_type: Any) -> Iterator[list[Any]]:
        rows = reader.toCloseableIterator()
        try:
            while rows.hasNext():
                row = rows.next()
                yield [str(row.getRowKind().shortString()), *self._values(row, row_type)]
        finally:
            rows.close()

    def changes(self, path: str, from_id: int, to_id: int) -> list[Json]:
        """What a streaming reader gets from each snapshot of [from_id, to_id]; snapshots it skips are left out."""
        start = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(from_id)}
        table = self._table(path).copyWithoutTimeTravel(self._options(start))  # keeps the latest schema
        latest = table.snapshotManager().latestSnapshotId()
        last = min(to_id, -1 if latest is None else int(latest))
        builder = table.newReadBuilder()
        scan = builder.newStreamScan()
        scan.restore(self.java.lang.Long.valueOf(jpype.JLong(from_id)))
        out = []
        while int(scan.checkpoint() if scan.checkpoint() is not None else from_id) <= last:
            plan = scan.plan()
            snapshot_id = int(scan.checkpoint()) - 1
            rows = list(self._rows(builder.newRead().createReader(plan), table.rowType()))
            if snapshot_id <= last and rows:
                out.append({"snapshot": snapshot_id, "rows": rows})
        return out

    def consume(self, path: str, consumer: str, most: int) -> list[Json]:
        """What a new streaming reader under this name gets from the next ``most`` snapshots, which it then notes.

        A reader without a past begins at the first snapshot; those it skips are left out.
        """
        options = {"consumer-id": consumer, "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
        table = self._table(path).copyWithoutTimeTravel(self._options(options))
        builder = table.newReadBuilder()
        scan = builder.newStreamScan()
        out = []
        for _ in range(most):
            before = scan.checkpoint()
            plan = scan.plan()
            rows = list(self._rows(builder.newRead().createReader(plan), table.rowType()))
            if rows:
                out.append({"snapshot": int(scan.checkpoint()) - 1, "rows": rows})
            elif before is not None and int(before) == int(scan.checkpoint()):
                break
        scan.notifyCheckpointComplete(scan.checkpoint())
        return out


class _Places(Protocol):
    """Buckets of rows that do not follow from the row alone."""

    def put(self, row: Any, emit: Callable[[Any, Any], None]) -> None:
        """Emit the row, and others that it needs, each with its bucket."""
        ...

    def prepare_commit(self, identifier: int) -> None: ...

    def close(self) -> None: ...


class _MovingPlaces:
    """Places of rows that move between partitions: Java's index of keys over the RocksDB that Spark brings.

    It is built from the table with the first row, in one assigner, which fits tables of any number of them.
    """

    def __init__(self, core: Any, table: Any, io_dir: str) -> None:
        self._core = core
        self._table = table
        self._io_dir = io_dir
        self._assigner: Any = None
        self._taken: list[tuple[Any, Any]] = []

    def _opened(self) -> Any:
        core = self._core
        assigner = core.crosspartition.GlobalIndexAssigner(self._table)
        taken = {"accept": lambda row, bucket: self._taken.append((row, bucket))}
        emit = jpype.JProxy("java.util.function.BiConsumer", dict=taken)
        io = core.disk.IOManager.create(self._io_dir)
        assigner.open(jpype.JLong(1 << 20), io, jpype.JInt(1), jpype.JInt(0), emit)
        keys = jpype.JProxy("java.util.function.Consumer", dict={"accept": assigner.bootstrapKey})
        core.crosspartition.IndexBootstrap(self._table).bootstrap(jpype.JInt(1), jpype.JInt(0), keys)
        assigner.endBoostrap(False)
        return assigner

    def put(self, row: Any, emit: Callable[[Any, Any], None]) -> None:
        if self._assigner is None:
            self._assigner = self._opened()
        self._assigner.processInput(row)
        for placed, bucket in self._taken:
            emit(placed, bucket)
        self._taken.clear()

    def prepare_commit(self, identifier: int) -> None:
        """Its index follows what it assigns."""

    def close(self) -> None:
        if self._assigner is not None:
            self._assigner.close()


class _DynamicPlaces:
    """Buckets of rows as Java's assigners give them, as many as the table's options say, one by default."""

    def __init__(self, core: Any, table: Any, commit_user: str) -> None:
        options = table.coreOptions()
        named = [options.dynamicBucketInitialBuckets(), options.dynamicBucketAssignerParallelism()]
        self._count = next((int(number) for number in named if number is not None), 1)
        self._keys = core.table.sink.RowPartitionKeyExtractor(table.schema())
        self._routes = core.index.BucketAssigner
        handler = table.store().newIndexFileHandler()
        target, most = options.dynamicBucketTargetRowNum(), options.dynamicBucketMaxBuckets()
        self._assigners = [
            core.index.HashBucketAssigner(
                table.snapshotManager(), commit_user, handler, self._count, self._count, number, target, most
            )
            for number in range(self._count)
        ]

    def put(self, row: Any, emit: Callable[[Any, Any], None]) -> None:
        partition = self._keys.partition(row).copy()
        key = int(self._keys.trimmedPrimaryKey(row).hashCode())
        number = self._routes.computeAssigner(partition.hashCode(), key, self._count, self._count)
        emit(row, self._assigners[int(number)].assign(partition, key))

    def prepare_commit(self, identifier: int) -> None:
        for assigner in self._assigners:
            assigner.prepareCommit(identifier)

    def close(self) -> None:
        """Nothing is held."""


COMMANDS = (
    "create_table",
    "alter",
    "write",
    "prepare",
    "commit_prepared",
    "play",
    "pack",
    "delete",
    "compact_postponed",
    "drop_partitions",
    "truncate",
    "overwrite",
    "expire",
    "remove_orphans",
    "create_tag",
    "delete_tag",
    "create_branch",
    "fast_forward",
    "reset_consumer",
    "rollback",
    "maintain",
    "option_names",
    "statistics",
    "buckets",
    "read",
    "changes",
    "consume",
)


def _causes(error: Any) -> str:
    """The error and its causes, one a line, without stack traces."""
    lines = []
    while error is not None:
        lines.append(str(error.toString()))
        error = error.getCause()
    return "\n".join(lines)


def _answer(tables: JavaTables, line: str) -> Json:
    request = json.loads(line)
    assert request["command"] in COMMANDS
    command: Callable[..., Any] = getattr(tables, request["command"])
    try:
        return {"ok": command(**request["arguments"])}
    except jpype.JException as error:
        return {"error": str(error.toString()), "trace": str(error.stacktrace())}
    except Exception as error:  # the outer loop of this process: the caller gets every failure as an answer
        return {"error": repr(error), "trace": traceback.format_exc()}


@contextmanager
def _own_stdout() -> Iterator[Any]:
    """Keep the answer channel apart from what Java libraries print to stdout."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        yield answers


def main() -> None:
    with _own_stdout() as answers, tempfile.TemporaryDirectory(prefix="java-paimon-") as io_dir:
        options = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
        jpype.startJVM(*options, classpath=sys.argv[1:], convertStrings=False)
        tables = JavaTables(io_dir)
        for line in sys.stdin:
            print(json.dumps(_answer(tables, line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
