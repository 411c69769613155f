"""Fixtures that every test may ask for."""

pytest_plugins = ["tests.stack.fixtures", "tests.support.order"]
