"""Avro values of records: the schema that wrote them, their content, and their columns."""
