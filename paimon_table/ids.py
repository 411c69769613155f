"""The five rising integers of the system, one type each, so that they cannot be mixed up."""

from typing import NewType

BatchId = NewType("BatchId", int)
"""Spark's micro-batch number, from 0, per checkpoint."""

Offset = NewType("Offset", int)
"""Position of a record in one Kafka topic partition, from 0."""

SequenceNumber = NewType("SequenceNumber", int)
"""Arrival order of rows inside one (partition, bucket), from 0."""

SnapshotId = NewType("SnapshotId", int)
"""Number of a table snapshot, from 1, without gaps."""

CommitIdentifier = NewType("CommitIdentifier", int)
"""Number that a commit user gives to a commit; strictly rising per user."""
