"""Secrets of a storage are in no pickle and no text, and reach the processes that are started later."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys

import pytest

from paimon_table.errors import ConfigError
from paimon_table.storage.file_io import file_io_for
from paimon_table.storage.secret import Secret, for_tasks, note_inherited, secret_variables
from pipelines.config.config import PipelineConfig

OPTIONS = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key": "AKIDPLAINTEXT",
    "s3.secret-key": "TOPSECRETKEY",
    "s3.session-token": "TOKENTEXT",
}
TEXTS = ("AKIDPLAINTEXT", "TOPSECRETKEY", "TOKENTEXT")


def test_neither_pickles_nor_texts_of_a_storage_hold_its_secrets() -> None:
    io, _ = file_io_for("s3://lake", OPTIONS)
    for shown in (pickle.dumps(io), repr(io).encode(), str(io).encode()):
        assert not any(text.encode() in shown or base64.b64encode(text.encode()) in shown for text in TEXTS)
    assert b"127.0.0.1:1" in pickle.dumps(io) and "127.0.0.1:1" in repr(io)


def test_a_secret_is_one_value_and_its_text_is_known_here_and_in_child_processes() -> None:
    secret = Secret.of("text of a test")
    assert pickle.loads(pickle.dumps(secret)) == secret == Secret.of("text of a test") != Secret.of("another")
    assert secret.reveal() == "text of a test" and str(secret) == "***"
    assert secret_variables()[secret.variable] == "text of a test"
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).reveal())"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(secret), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "text of a test"


def test_tasks_get_a_reference_where_their_processes_have_the_secret_and_the_text_elsewhere() -> None:
    assert for_tasks("never held") == "never held"
    secret = Secret.of("held before a JVM starts")
    assert for_tasks("held before a JVM starts") == "held before a JVM starts"
    note_inherited()
    assert for_tasks("held before a JVM starts") == secret


def test_a_process_that_was_started_before_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"lacks a secret .*AWS client"):
        Secret("TIDEMARK_SECRET_unknown").reveal()


def test_models_of_the_file_show_no_values_of_options() -> None:
    data = {
        "version": 1,
        "name": "shop",
        "source": {
            "kafka": {"bootstrap_servers": "b:9092", "options": {"sasl.jaas.config": "SECRETJAAS"}, "topics": ["t"]},
            "format": "debezium-json",
        },
        "checkpoint": "file:///c",
        "catalog": {"warehouse": "s3://lake", "options": OPTIONS},
        "spark": {"spark.hadoop.fs.s3a.secret.key": "HADOOPSECRET"},
        "otherwise": "create",
    }
    config = PipelineConfig.model_validate(data)
    for text in (*TEXTS, "SECRETJAAS", "HADOOPSECRET"):
        assert text not in repr(config) and text not in str(config)
