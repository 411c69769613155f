"""Fixtures that every test may ask for, and how the JVMs of all tests start."""

import os

pytest_plugins = ["tests.stack.fixtures", "tests.support.order"]

# Spark's JVM ends with its test: what the second compiler and the verifier of class files take is not given back.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
