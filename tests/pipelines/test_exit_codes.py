"""What processes end with where storage refuses the keys: starting again helps once they are mended."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import tidemark
from tests.support.s3_server import s3_server

YAML = """\
version: 1
name: shop
source: {{ files: {{ path: dumps }}, format: debezium-json }}
checkpoint: state
catalog:
  warehouse: s3://lake/warehouse
  options: {{ s3.endpoint: "{endpoint}", s3.access-key: other, s3.secret-key: k, s3.path.style.access: true }}
otherwise: create
"""


def test_keys_that_the_store_refuses_end_with_1_and_what_to_check(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    (tmp_path / "dumps").mkdir()
    with s3_server() as store:
        store.refuses_keys = True
        file.write_text(YAML.format(endpoint=store.endpoint))
        access = {"s3.endpoint": store.endpoint, "s3.access-key": "other", "s3.secret-key": "k"}
        options = [text for name, value in access.items() for text in ("--option", f"{name}={value}")]
        looked = tidemark("table", "snapshots", "s3://lake/t", *options, "--option", "s3.path.style.access=true")
        ran = tidemark("run", file, "--once")

    for done in (looked, ran):
        assert done.returncode == 1, done.stdout + done.stderr
        assert "s3://lake" in done.stderr and "check" in done.stderr and "Traceback" not in done.stderr
