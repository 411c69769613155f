"""docs/TUTORIAL.md from top to bottom, with a PostgreSQL, a broker and a Connect worker of the test stack."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import Block, blocks, page
from tests.stack.connect import Connect
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics
from tests.support.waiting import seconds

pytestmark = pytest.mark.stack
NAME = "tutorial"
PLACES = ("database.hostname", "database.port", "database.user", "database.password")
"""What a reader replaces in connector.json."""


def the_only(language: str) -> Block:
    (block,) = blocks(page("TUTORIAL.md"), language)
    return block


def test_every_step_of_the_tutorial_works(tmp_path: Path, kafka: Topics, postgres: Postgres, connect: Connect) -> None:
    make, change = (block.text for block in blocks(page("TUTORIAL.md"), "sql"))
    steps = iter(blocks(page("TUTORIAL.md"), "sh"))
    connector = json.loads(the_only("json").text)
    (tmp_path / "tutorial.yaml").write_text(the_only("yaml").text)
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}

    def run(block: Block) -> list[str]:
        """The outputs of the commands of one block."""
        outputs = []
        for line in block.text.splitlines():
            program, *words = shlex.split(line)
            assert program == "tidemark"
            done = subprocess.run(
                [str(Path(sys.executable).with_name(program)), *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds(400),
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            outputs.append(done.stdout)
        return outputs

    # given the table, and Debezium as documented
    postgres.create_database(NAME)
    with postgres.connect(NAME) as connection:
        connection.execute(make)
    connect.capture(NAME, postgres, NAME, {k: v for k, v in connector.items() if k not in PLACES})
    kafka.wait_for_records("tutorial.public.orders", 2)

    # when the commands are typed as they stand there
    assert "valid" in run(next(steps))[0]
    assert "tutorial: 2 events" in run(next(steps))[0]
    scanned, _ = run(next(steps))
    assert "12.50" in scanned and "7.25" in scanned

    with postgres.connect(NAME) as connection:
        connection.execute(change)
    kafka.wait_for_records("tutorial.public.orders", 5)
    _, changes, paid = run(next(steps))
    connect.release(NAME)

    # then the changes are those of the two statements
    for kind in ("-U", "+U", "-D"):
        assert kind in changes
    assert [(row["id"], row["status"]) for row in map(json.loads, paid.splitlines())] == [(1, "paid")]
