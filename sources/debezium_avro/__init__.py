"""Debezium's envelopes in Avro."""
