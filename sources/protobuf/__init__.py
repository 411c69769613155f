"""Protocol Buffers values of records: their message, its columns, and the values of these."""
