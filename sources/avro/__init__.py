"""Avro values of records: which schema wrote them, what it says, and their columns."""
