"""A streaming source whose batches are planned in this process and read by the first Python step of their tasks.

Spark's interface for Python sources starts a process for each step: to find the source, to create it, to plan a stream
and to plan a read. Here Spark asks this process instead, over the connection of ``foreachBatch``. Each task gets its
share of the batch as a row with one binary column, so the records never pass the JVM.

Spark's interfaces (``SupportsRead`` and those that it returns) are public. Two steps use Spark's internals: creating a
relation from an object, and putting rows into partitions. ``_Internals`` has the differences between 4.0 and 4.2.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import SinkUnavailable
from sources.pace import Cadence, PlansEnds

SHARE = "share"
"""The column that holds a task's share of the batch."""

_CONNECTOR = "org.apache.spark.sql.connector"
_ROW_HEADER_BYTES = 16
"""Of an UnsafeRow with one field: a word of null bits, a word with offset and size of the field."""


class Planner(PlansEnds, Protocol):
    """Says what batches hold."""

    def initial_offset(self) -> str: ...

    def shares(self, start: str, end: str) -> Sequence[bytes]:
        """The batch between two offsets, in one piece per task; may be called again with offsets of long ago."""

    def stop(self) -> None: ...


def planned_stream(spark: SparkSession, name: str, planner: Planner, interval_s: float) -> DataFrame:
    """Rows of ``SHARE``, each in a separate partition, of the batches that ``planner`` plans (``Cadence``).

    Spark's trigger ``availableNow`` works with a ``HoldablePlanner``.
    """
    jvm, session = spark.sparkContext._jvm, getattr(spark, "_jsparkSession", None)
    if jvm is None or session is None:
        raise SinkUnavailable("Spark's JVM has ended; start again")
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    sql = jvm.org.apache.spark.sql
    if isinstance(planner, HoldablePlanner):
        table: _Stream = _DrainedStream(spark, name, planner, interval_s)
    else:
        table = _Stream(spark, name, planner, interval_s)
    relation = _Internals(jvm, spark.version).relation(name, table, table.schema())
    return DataFrame(sql.classic.Dataset.ofRows(session, relation), spark)


class _Internals:
    """Spark's classes that are not public, by the names that they have in this version of Spark."""

    def __init__(self, jvm: Any, version: str) -> None:
        self._jvm = jvm
        self._sql = jvm.org.apache.spark.sql
        self._since_4_2 = tuple(int(part) for part in version.split(".")[:2]) >= (4, 2)
        streaming = self._sql.execution.streaming
        self._streaming = streaming.runtime if self._since_4_2 else streaming

    def relation(self, name: str, table: _Stream, schema: Any) -> Any:
        """The plan of a stream that reads ``table``."""
        nothing = self._jvm.scala.Option.empty()
        options = self._sql.util.CaseInsensitiveStringMap.empty()
        columns = self._sql.catalyst.types.DataTypeUtils.toAttributes(schema)
        streaming = self._sql.catalyst.streaming
        naming = [getattr(streaming, "Unassigned$").__getattr__("MODULE$")] if self._since_4_2 else []
        return streaming.StreamingRelationV2(nothing, name, table, options, columns, nothing, nothing, nothing, *naming)

    def reader_factory(self) -> Any:
        return getattr(self._streaming, "MemoryStreamReaderFactory$").__getattr__("MODULE$")

    def offset(self, text: str) -> Any:
        return self._streaming.SerializedOffset(text)

    def partition(self, rows: Any) -> Any:
        return self._streaming.MemoryStreamInputPartition(rows)


@runtime_checkable
class HoldablePlanner(Planner, Protocol):
    """A planner that can drain its source as it is at one moment, for the trigger ``availableNow``."""

    def hold_end(self) -> None:
        """Plan nothing beyond the present end."""


class _Stream:
    """Spark's table, scan and stream in one object, which the JVM calls; its methods have the names of Java's."""

    class Java:
        implements = (
            f"{_CONNECTOR}.catalog.SupportsRead",
            f"{_CONNECTOR}.read.ScanBuilder",
            f"{_CONNECTOR}.read.Scan",
            f"{_CONNECTOR}.read.streaming.MicroBatchStream",
            f"{_CONNECTOR}.read.streaming.SupportsAdmissionControl",
        )

    _numbers = itertools.count(1)

    def __init__(self, spark: SparkSession, name: str, planner: Planner, interval_s: float) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._sql = jvm.org.apache.spark.sql
        self._internals = _Internals(jvm, spark.version)
        self._planner = planner
        self._cadence = Cadence(interval_s)
        self._name = name
        self._number = next(self._numbers)
        # Spark asks for it repeatedly while it plans a batch.
        self._schema = self._sql.types.StructType.fromDDL(f"{SHARE} binary not null")
        self._rows_only = getattr(self._sql.connector.read, "Scan$ColumnarSupportMode").UNSUPPORTED
        self._capabilities = jvm.java.util.EnumSet.of(self._sql.connector.catalog.TableCapability.MICRO_BATCH_READ)

    def name(self) -> str:
        return self._name

    def schema(self) -> Any:
        return self._schema

    def capabilities(self) -> Any:
        return self._capabilities

    def newScanBuilder(self, _options: Any) -> _Stream:
        return self

    def build(self) -> _Stream:
        return self

    def readSchema(self) -> Any:
        return self._schema

    def description(self) -> str:
        return self._name

    def columnarSupportMode(self) -> Any:
        return self._rows_only

    def supportedCustomMetrics(self) -> Any:
        return self._array(self._sql.connector.metric.CustomMetric, [])

    def reportDriverMetrics(self) -> Any:
        return self._array(self._sql.connector.metric.CustomTaskMetric, [])

    def toMicroBatchStream(self, _checkpoint: str) -> _Stream:
        return self

    def initialOffset(self) -> Any:
        return self._offset(self._planner.initial_offset())

    def deserializeOffset(self, text: str) -> Any:
        return self._offset(text)

    def getDefaultReadLimit(self) -> Any:
        return self._sql.connector.read.streaming.ReadLimit.allAvailable()

    def latestOffset(self, start: Any, _limit: Any) -> Any:
        return self._offset(self._cadence.latest_offset(self._planner, start.json()))

    def reportLatestOffset(self) -> None:
        return None

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        partitions = [self._partition(share) for share in self._planner.shares(start.json(), end.json())]
        return self._array(self._sql.connector.read.InputPartition, partitions)

    def createReaderFactory(self) -> Any:
        return self._internals.reader_factory()

    def commit(self, _end: Any) -> None:
        """Nothing is kept for batches that may come again: the files are."""

    def stop(self) -> None:
        self._planner.stop()

    def equals(self, other: object) -> bool:
        # py4j passes None for an object of this process; a plan has one.
        return other is None or other is self

    def hashCode(self) -> int:
        return self._number

    def toString(self) -> str:
        return self._name

    def _offset(self, text: str) -> Any:
        return self._internals.offset(text)

    def _partition(self, share: bytes) -> Any:
        row = self._sql.catalyst.expressions.UnsafeRow(1)
        content = _unsafe_row(share)
        row.pointTo(content, len(content))
        return self._internals.partition(self._array(self._sql.catalyst.expressions.UnsafeRow, [row]))

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array


class _DrainedStream(_Stream):
    """A stream that Spark drains as it is when the query starts."""

    class Java:
        implements = (*_Stream.Java.implements, f"{_CONNECTOR}.read.streaming.SupportsTriggerAvailableNow")

    def __init__(self, spark: SparkSession, name: str, planner: HoldablePlanner, interval_s: float) -> None:
        super().__init__(spark, name, planner, interval_s)
        self._drains = planner

    def prepareForTriggerAvailableNow(self) -> None:
        self._drains.hold_end()


def _unsafe_row(field: bytes) -> bytes:
    """Spark's layout of a row with one field of bytes, which is not null."""
    padding = bytes(-len(field) % 8)
    return struct.pack("=qq", 0, _ROW_HEADER_BYTES << 32 | len(field)) + field + padding
