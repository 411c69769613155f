"""Whether a Docker daemon answers, and the containers that replace local processes where one does.

Their library is imported by those who start one: each worker of a test run imports this module.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testcontainers.community.kafka import KafkaContainer
    from testcontainers.community.postgres import PostgresContainer

KAFKA_IMAGE = "confluentinc/cp-kafka:8.1.0"
POSTGRES_IMAGE = "postgres:18-alpine"
DAEMON_ANSWER_TIMEOUT_S = 5


@cache
def docker_available() -> bool:
    """Say whether a Docker daemon answers; an installed client alone does not count."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    command = [docker, "info", "--format", "{{.ServerVersion}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=DAEMON_ANSWER_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def kafka_container() -> KafkaContainer:
    """Return a one-node broker in KRaft mode, not yet started."""
    from testcontainers.community.kafka import KafkaContainer

    return KafkaContainer(KAFKA_IMAGE).with_kraft()


def postgres_container() -> PostgresContainer:
    """Return a server with logical decoding, not yet started."""
    from testcontainers.community.postgres import PostgresContainer

    container = PostgresContainer(POSTGRES_IMAGE, username="postgres", password="postgres", dbname="postgres")
    return container.with_command("postgres -c wal_level=logical -c max_replication_slots=50 -c max_wal_senders=50")
