"""Protocol Buffers values of records: which message they are, what it says of columns, and these columns."""
