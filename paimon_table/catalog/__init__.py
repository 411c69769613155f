"""Tables by name: which tables exist, where their files are, and how a new version of a table becomes visible."""
