"""Avro values of records: the schema that wrote them, its content, and their columns."""
