"""Decoding of Debezium's JSON change events, with and without embedded schemas."""
