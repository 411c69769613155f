"""A watch over scripted answers of Kafka: what is told while there is none."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from paimon_table.errors import SinkUnavailable
from sources.kafka.watch import KafkaWatch

SILENCE = "Kafka at b:1 does not answer (timed out): check that it runs"


class Script:
    """Answers in turn, each after some seconds; None for silence."""

    def __init__(self, answers: list[Mapping[str, str] | None], seconds: float = 10.0) -> None:
        self.answers = answers
        self.now_s = 0.0
        self.seconds = seconds
        self.handed_on: list[Mapping[str, str]] = []

    def topic_ids(self) -> Mapping[str, str]:
        self.now_s += self.seconds
        answer = self.answers.pop(0)
        if answer is None:
            raise SinkUnavailable(SILENCE)
        return answer

    def play(self, options: Mapping[str, str] | None = None) -> None:
        watch = KafkaWatch("shop", options or {}, self.topic_ids, self.handed_on.append, lambda: self.now_s)
        while self.answers:
            watch.look()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_silence_is_told_again_and_again_with_its_length_the_wait_and_the_remedy(
    told: pytest.LogCaptureFixture,
) -> None:
    Script([{"s.a": "1"}, None, None, None, None, {"s.a": "1"}]).play()
    assert [record.getMessage().split(":")[1].strip() for record in told.records] == [
        "no answer from Kafka for 10 s",
        "no answer from Kafka for 40 s",
        "Kafka answers again after 50 s",
    ]
    assert SILENCE in told.records[0].getMessage()
    assert "gives up after about 60 s within a batch, or 180 s between two" in told.records[0].getMessage()


def test_the_wait_follows_the_timeout_of_the_file(told: pytest.LogCaptureFixture) -> None:
    Script([None]).play({"default.api.timeout.ms": "300000"})
    assert "about 300 s within a batch, or 900 s between two" in told.text


def test_every_answer_is_handed_on_and_a_topic_that_goes_is_told_once(told: pytest.LogCaptureFixture) -> None:
    answers: list[Mapping[str, str] | None] = [{"s.a": "1"}, None, {}, {}, {"s.a": "2", "s.new": "7"}]
    script = Script(list(answers))
    script.play()
    assert script.handed_on == [answer for answer in answers if answer is not None]
    assert told.text.count("topic s.a no longer exists") == 1
    assert "s.new" not in told.text
