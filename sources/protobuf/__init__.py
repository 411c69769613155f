"""Protocol Buffers values of records: their message type, its columns, and their values."""
