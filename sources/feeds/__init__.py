"""Decoding of the JSON change events of other replication tools than Debezium: Canal, Maxwell, GoldenGate, DMS."""
