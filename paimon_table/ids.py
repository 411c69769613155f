"""Rising integers that are passed on far from where they arise, one type each, so that they cannot be mixed up."""

from typing import NewType

Offset = NewType("Offset", int)
"""Position of a record in one Kafka topic partition, from 0."""

SequenceNumber = NewType("SequenceNumber", int)
"""Arrival order of rows inside one (partition, bucket), from 0."""
