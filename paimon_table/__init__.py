"""The table engine: tables in Apache Paimon's format, read and written with Arrow.

    from paimon_table import Table
    table = Table.open_for_reading("/data/warehouse/lake.db/orders")
    rows = table.to_arrow(columns=["id", "total"])

``__all__`` is the public surface of the engine. A contract in ``pyproject.toml`` names the other modules that may be
imported. Nothing is imported before it is used, so that modules without Arrow do not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_table.bucket_assignment.bucket_assigner import lane_split, open_assigner
    from paimon_table.bucket_assignment.cross_partition import key_lane_properties
    from paimon_table.bucket_assignment.lanes import BucketAssigner, Lane, LaneSplit
    from paimon_table.catalog.catalog import Catalog, TableFiles
    from paimon_table.catalog.filesystem import FilesystemCatalog
    from paimon_table.catalog.jdbc_catalog import JdbcCatalog
    from paimon_table.catalog.jdbc_database import JdbcDatabase
    from paimon_table.catalog.jdbc_dialects import JdbcSettings
    from paimon_table.catalog.rest_catalog import RestCatalog
    from paimon_table.catalog.rest_client import RestClient, RestSettings
    from paimon_table.catalog.table_name import TableName
    from paimon_table.commit.commit import TableCommit
    from paimon_table.commit.delta import Commit, CommitResult
    from paimon_table.commit.own_commits import CLOCK_SKEW_MS, CommitsOfUser, OwnCommits, outcome_unknown
    from paimon_table.metadata.bucket_id import DYNAMIC, POSTPONED, BucketId
    from paimon_table.metadata.commit_message import CommitMessage
    from paimon_table.metadata.data_file import DataFileMeta
    from paimon_table.metadata.packed_files import FilePacker
    from paimon_table.metadata.paths import TablePaths
    from paimon_table.metadata.snapshot import (
        BEFORE_THE_FIRST,
        CommitKind,
        Snapshot,
        SnapshotIdentity,
        SnapshotStore,
        UserSearch,
    )
    from paimon_table.metadata.snapshot_walk import snapshots_before
    from paimon_table.metadata.table_context import TableContext
    from paimon_table.metadata.table_state import BucketState, LiveFiles, TableState
    from paimon_table.options.table_options import TableOptions
    from paimon_table.schema.mapping import conform_column
    from paimon_table.schema.table_schema import TableSchema, create_schema
    from paimon_table.table import Table
    from paimon_table.validation.schema_evolution import (
        AddColumn,
        DescribeColumn,
        DropColumn,
        NullableColumn,
        RenameColumn,
        SchemaChange,
        SetOption,
        TextColumn,
        WidenColumn,
        apply_changes,
        can_become_text,
    )
    from paimon_table.validation.table_validation import validate_changed_table, validate_new_table, validate_table
    from paimon_table.write.bucket_writer import KEPT_BYTES, BucketWriter, WriterEnvironment
    from paimon_table.write.emptying import Emptied, emptied, why_not_emptied
    from paimon_table.write.former_rows import former_rows
    from paimon_table.write.write_traits import WriteTraits, write_traits
    from paimon_table.write.writer import Writer, open_writer
else:
    _HOMES = {
        "AddColumn": "validation.schema_evolution",
        "BucketAssigner": "bucket_assignment.lanes",
        "BucketId": "metadata.bucket_id",
        "BucketState": "metadata.table_state",
        "BucketWriter": "write.bucket_writer",
        "CLOCK_SKEW_MS": "commit.own_commits",
        "Catalog": "catalog.catalog",
        "Commit": "commit.delta",
        "CommitKind": "metadata.snapshot",
        "CommitMessage": "metadata.commit_message",
        "CommitResult": "commit.delta",
        "CommitsOfUser": "commit.own_commits",
        "OwnCommits": "commit.own_commits",
        "outcome_unknown": "commit.own_commits",
        "DataFileMeta": "metadata.data_file",
        "DescribeColumn": "validation.schema_evolution",
        "DropColumn": "validation.schema_evolution",
        "Emptied": "write.emptying",
        "FilePacker": "metadata.packed_files",
        "FilesystemCatalog": "catalog.filesystem",
        "KEPT_BYTES": "write.bucket_writer",
        "Lane": "bucket_assignment.lanes",
        "LaneSplit": "bucket_assignment.lanes",
        "LiveFiles": "metadata.table_state",
        "DYNAMIC": "metadata.bucket_id",
        "POSTPONED": "metadata.bucket_id",
        "NullableColumn": "validation.schema_evolution",
        "RenameColumn": "validation.schema_evolution",
        "JdbcCatalog": "catalog.jdbc_catalog",
        "JdbcDatabase": "catalog.jdbc_database",
        "JdbcSettings": "catalog.jdbc_dialects",
        "RestCatalog": "catalog.rest_catalog",
        "RestClient": "catalog.rest_client",
        "RestSettings": "catalog.rest_client",
        "SchemaChange": "validation.schema_evolution",
        "SetOption": "validation.schema_evolution",
        "Snapshot": "metadata.snapshot",
        "SnapshotIdentity": "metadata.snapshot",
        "SnapshotStore": "metadata.snapshot",
        "BEFORE_THE_FIRST": "metadata.snapshot",
        "snapshots_before": "metadata.snapshot_walk",
        "Table": "table",
        "TableCommit": "commit.commit",
        "TableContext": "metadata.table_context",
        "TableFiles": "catalog.catalog",
        "TableName": "catalog.table_name",
        "TableOptions": "options.table_options",
        "TablePaths": "metadata.paths",
        "TableSchema": "schema.table_schema",
        "TableState": "metadata.table_state",
        "TextColumn": "validation.schema_evolution",
        "UserSearch": "metadata.snapshot",
        "WidenColumn": "validation.schema_evolution",
        "WriteTraits": "write.write_traits",
        "Writer": "write.writer",
        "WriterEnvironment": "write.bucket_writer",
        "apply_changes": "validation.schema_evolution",
        "can_become_text": "validation.schema_evolution",
        "conform_column": "schema.mapping",
        "create_schema": "schema.table_schema",
        "emptied": "write.emptying",
        "former_rows": "write.former_rows",
        "key_lane_properties": "bucket_assignment.cross_partition",
        "lane_split": "bucket_assignment.bucket_assigner",
        "open_assigner": "bucket_assignment.bucket_assigner",
        "open_writer": "write.writer",
        "validate_changed_table": "validation.table_validation",
        "validate_new_table": "validation.table_validation",
        "validate_table": "validation.table_validation",
        "why_not_emptied": "write.emptying",
        "write_traits": "write.write_traits",
    }

    def __getattr__(name):
        """A public name, imported at its first use."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'paimon_table' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"paimon_table.{home}"), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "BEFORE_THE_FIRST",
    "CLOCK_SKEW_MS",
    "DYNAMIC",
    "KEPT_BYTES",
    "POSTPONED",
    "AddColumn",
    "BucketAssigner",
    "BucketId",
    "BucketState",
    "BucketWriter",
    "Catalog",
    "Commit",
    "CommitKind",
    "CommitMessage",
    "CommitResult",
    "CommitsOfUser",
    "DataFileMeta",
    "DescribeColumn",
    "DropColumn",
    "Emptied",
    "FilePacker",
    "FilesystemCatalog",
    "JdbcCatalog",
    "JdbcDatabase",
    "JdbcSettings",
    "Lane",
    "LaneSplit",
    "LiveFiles",
    "NullableColumn",
    "OwnCommits",
    "RenameColumn",
    "RestCatalog",
    "RestClient",
    "RestSettings",
    "SchemaChange",
    "SetOption",
    "Snapshot",
    "SnapshotIdentity",
    "SnapshotStore",
    "Table",
    "TableCommit",
    "TableContext",
    "TableFiles",
    "TableName",
    "TableOptions",
    "TablePaths",
    "TableSchema",
    "TableState",
    "TextColumn",
    "UserSearch",
    "WidenColumn",
    "WriteTraits",
    "Writer",
    "WriterEnvironment",
    "apply_changes",
    "can_become_text",
    "conform_column",
    "create_schema",
    "emptied",
    "former_rows",
    "key_lane_properties",
    "lane_split",
    "open_assigner",
    "open_writer",
    "outcome_unknown",
    "snapshots_before",
    "validate_changed_table",
    "validate_new_table",
    "validate_table",
    "why_not_emptied",
    "write_traits",
]
