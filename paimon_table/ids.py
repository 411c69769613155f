"""Rising integers that many modules pass on, with one type each, so that they cannot be confused."""

from typing import NewType

Offset = NewType("Offset", int)
"""Position of a record in one Kafka topic partition, from 0."""

SequenceNumber = NewType("SequenceNumber", int)
"""Arrival order of rows inside one (partition, bucket), from 0."""
