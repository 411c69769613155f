"""Java Paimon as an independent reader and writer, in a process of its own.

The core jar ``paimon-bundle`` finds its Hadoop classes in the jars of the pyspark wheel; JPype drives it without a
compiler. Rows are ``[kind, values...]`` in the plain form of ``tests.support.plain_values``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_table.types import DataType, parse_type, type_json
from tests.interop.worker import Worker
from tests.support.plain_values import Plain

Rows = Sequence[Sequence[Plain]]


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """What a streaming reader gets from one snapshot."""

    snapshot_id: int
    rows: list[list[Plain]]


class JavaPaimon:
    """Client of one worker process; what Java raises comes as WorkerError. Not thread safe."""

    def __init__(self, class_path: Sequence[Path], root: Path) -> None:
        command: list[str | Path] = [sys.executable, "-m", "tests.interop.java_worker", *class_path]
        self._worker = Worker("Java Paimon", command, root)

    def close(self) -> None:
        self._worker.close()

    def _ask(self, command: str, **arguments: Any) -> Any:
        return self._worker.ask(command, arguments)

    def create_table(
        self,
        path: str,
        columns: Sequence[tuple[str, DataType | str]],
        primary_key: Sequence[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        types = [(name, parse_type(t) if isinstance(t, str) else t) for name, t in columns]
        self._ask(
            "create_table",
            path=path,
            columns=[[name, type_json(t)] for name, t in types],
            primary_key=list(primary_key),
            partition_by=list(partition_by),
            options=dict(options or {}),
        )

    def alter(self, path: str, *changes: tuple[Any, ...]) -> None:
        """("add" | "type", column, type), ("rename", old, new), ("drop", column), ("default", column, text),
        ("set", option, value or None)."""
        as_json = [[type_json(a) if isinstance(a, DataType) else a for a in change] for change in changes]
        self._ask("alter", path=path, changes=as_json)

    def write(
        self,
        path: str,
        rows: Rows,
        commit_user: str = "java",
        identifier: int = 1,
        compact: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """One commit of a new writer; ``compact`` adds a full compaction of all buckets to it."""
        self._ask(
            "write",
            path=path,
            rows=[list(row) for row in rows],
            commit_user=commit_user,
            identifier=identifier,
            compact=compact,
            options=dict(options or {}),
        )

    def prepare(self, path: str, rows: Rows, commit_user: str = "java", identifier: int = 1) -> None:
        """Write rows that ``commit_prepared`` commits; one at a time, of tables with a fixed number of buckets."""
        rows = [list(row) for row in rows]
        self._ask("prepare", path=path, rows=rows, commit_user=commit_user, identifier=identifier)

    def commit_prepared(self) -> None:
        self._ask("commit_prepared")

    def play(
        self, path: str, commits: Sequence[tuple[Rows, bool]], commit_user: str = "java", keeps_writer: bool = False
    ) -> str | None:
        """Commits of (rows, compact) with identifiers from 1; gives the error of the first that fails, if any."""
        as_json = [[[list(row) for row in rows], compact] for rows, compact in commits]
        error = self._ask("play", path=path, commits=as_json, commit_user=commit_user, keeps_writer=keeps_writer)
        return None if error is None else str(error)

    def pack(self, path: str, commit_user: str = "java-pack", identifier: int = 1) -> int:
        """Compact a table without buckets as Java's coordinator does; gives the number of its tasks."""
        return int(self._ask("pack", path=path, commit_user=commit_user, identifier=identifier))

    def delete(
        self, path: str, column: str, values: Sequence[Plain], commit_user: str = "java-delete", identifier: int = 1
    ) -> int:
        """Mark rows of a table without primary key, by values of a column, in deletion vectors; gives how many."""
        arguments = {"column": column, "values": list(values), "commit_user": commit_user, "identifier": identifier}
        return int(self._ask("delete", path=path, **arguments))

    def compact_postponed(self, path: str, commit_user: str = "java-compact", identifier: int = 1) -> None:
        """Give postponed rows their bucket, one per partition."""
        self._ask("compact_postponed", path=path, commit_user=commit_user, identifier=identifier)

    def drop_partitions(self, path: str, *partitions: Mapping[str, str]) -> None:
        """Drop partitions, by the texts of their values."""
        self._ask("drop_partitions", path=path, partitions=[dict(partition) for partition in partitions])

    def truncate(self, path: str) -> None:
        """Take all rows out of the table."""
        self._ask("truncate", path=path)

    def overwrite(
        self,
        path: str,
        rows: Rows,
        partition: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """INSERT OVERWRITE, of a static partition by the texts of its values or as the table's options say."""
        given = {"partition": dict(partition or {}), "options": dict(options or {})}
        self._ask("overwrite", path=path, rows=[list(row) for row in rows], **given)

    def expire(self, path: str, options: Mapping[str, str]) -> tuple[int, int]:
        """Expire snapshots and long-lived changelogs with these options; gives how many of each are gone."""
        done = self._ask("expire", path=path, options=dict(options))
        return int(done["snapshots"]), int(done["changelogs"])

    def remove_orphans(self, path: str, older_than_ms: int) -> list[str]:
        """Remove files that nothing references and that were last written before a time; gives their paths."""
        return list(self._ask("remove_orphans", path=path, older_than_ms=older_than_ms))

    def create_tag(self, path: str, name: str, snapshot_id: int, retained_s: int | None = None) -> None:
        self._ask("create_tag", path=path, name=name, snapshot_id=snapshot_id, retained_s=retained_s)

    def delete_tag(self, path: str, name: str) -> None:
        self._ask("delete_tag", path=path, name=name)

    def create_branch(self, path: str, name: str, tag: str | None = None) -> None:
        self._ask("create_branch", path=path, name=name, tag=tag)

    def fast_forward(self, path: str, name: str) -> None:
        """Put the snapshots of a branch in the place of those of the table that came since it began."""
        self._ask("fast_forward", path=path, name=name)

    def reset_consumer(self, path: str, name: str, next_snapshot: int) -> None:
        self._ask("reset_consumer", path=path, name=name, next_snapshot=next_snapshot)

    def rollback(self, path: str, snapshot_id: int | None = None, tag: str | None = None) -> None:
        self._ask("rollback", path=path, snapshot_id=snapshot_id, tag=tag)

    def maintain(self, path: str, options: Mapping[str, str]) -> None:
        """What a commit of nothing does besides: tags, partitions, consumers, snapshots."""
        self._ask("maintain", path=path, options=dict(options))

    def option_names(self) -> list[str]:
        """The names of all options of tables."""
        return list(self._ask("option_names"))

    def statistics(self, path: str) -> dict[str, Any] | None:
        """What the newest snapshot says about the table, as JSON; None when it says nothing."""
        found = self._ask("statistics", path=path)
        return None if found is None else dict(found)

    def buckets(self, path: str, rows: Rows) -> list[int]:
        return list(self._ask("buckets", path=path, rows=[list(row) for row in rows]))

    def read(
        self,
        path: str,
        options: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        equal: Mapping[str, Plain] | None = None,
    ) -> list[list[Plain]]:
        """Rows with kinds; ``options`` are dynamic ones such as ``scan.snapshot-id``, or name a ``branch``.

        ``equal`` is a filter that Java pushes down as far as it can; rows that it does not match may be left.
        """
        arguments = {"options": dict(options or {}), "columns": None if columns is None else list(columns)}
        return list(self._ask("read", path=path, equal=dict(equal or {}), **arguments)["rows"])

    def changes(self, path: str, from_id: int = 1, to_id: int = 2**62) -> list[SnapshotChanges]:
        answers = self._ask("changes", path=path, from_id=from_id, to_id=to_id)
        return [SnapshotChanges(answer["snapshot"], answer["rows"]) for answer in answers]

    def consume(self, path: str, consumer: str, most: int) -> list[SnapshotChanges]:
        """What a new streaming reader under this ``consumer-id`` gets in so many steps; then it notes how far it is."""
        answers = self._ask("consume", path=path, consumer=consumer, most=most)
        return [SnapshotChanges(answer["snapshot"], answer["rows"]) for answer in answers]
