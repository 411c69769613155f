"""Decoding of JSON change events from replication tools other than Debezium: Canal, Maxwell, GoldenGate, DMS."""
