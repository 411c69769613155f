"""Rows keyed by their message, in Avro."""
