"""Tables by name: which there are, where they lie, and what makes a new version of one visible."""
