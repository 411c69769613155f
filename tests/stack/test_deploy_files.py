"""What docker-compose.yml mounts works with the real parts: the shop's SQL and the connector's configuration."""

import json

import pytest

from tests.stack.connect import Connect
from tests.stack.paths import PROJECT_DIR
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.slow]


def test_the_shop_of_docker_compose_reaches_its_topics(kafka: Topics, postgres: Postgres, connect: Connect) -> None:
    postgres.create_database("deploy_shop")
    with postgres.connect("deploy_shop") as connection:
        connection.execute((PROJECT_DIR / "deploy" / "shop.sql").read_bytes())
    place = {
        "database.hostname": postgres.host,
        "database.port": str(postgres.port),
        "database.dbname": "deploy_shop",
        "topic.prefix": "deploy",
    }

    config = json.loads((PROJECT_DIR / "deploy" / "connector.json").read_text())
    connect.capture("deploy", postgres, "deploy_shop", {**config, **place})

    counts = {"customers": 500, "products": 100, "orders": 5000}
    for table, count in counts.items():
        kafka.wait_for_records(f"deploy.public.{table}", count)
    connect.release("deploy")
