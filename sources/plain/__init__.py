"""Plain records: each value is a row, without an operation."""
