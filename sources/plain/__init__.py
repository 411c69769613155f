"""Plain records: each value is a row, and nothing beside it says what became of the row."""
