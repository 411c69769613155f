"""The independent readers, one process each for the whole test run."""

from collections.abc import Iterator

import pytest

from tests.interop.environment import java_class_path, pypaimon_python
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.stack.paths import PROJECT_DIR


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    client = JavaPaimon(java_class_path(), PROJECT_DIR)
    yield client
    client.close()


@pytest.fixture(scope="session")
def python_readers() -> Iterator[PythonReaders]:
    client = PythonReaders(pypaimon_python(), PROJECT_DIR)
    yield client
    client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop/" in item.nodeid:
            item.add_marker(pytest.mark.interop)
