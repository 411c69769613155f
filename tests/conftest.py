"""Fixtures that every test may ask for, and how the JVMs of all tests start."""

import os

from tests.stack.class_archive import jvm_options

pytest_plugins = ["tests.stack.fixtures", "tests.support.order"]

os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm_options())
