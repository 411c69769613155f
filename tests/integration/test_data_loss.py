"""Records that Kafka deletes before they are read: refused, or told exactly and passed over, whenever it happens."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stack.kafka import running_kafka
from tests.support.kafka_pipelines import insert_events, row_ids, write_kafka_pipeline
from tests.support.pipeline_run import run_together, running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.slow]
CUT, ANEW = "c.cut", "c.anew"


def test_what_is_lost_stops_a_run_or_is_told_and_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "messages"
    log.touch()

    def says(text: str) -> Callable[[], bool]:
        return lambda: text in log.read_text()

    def file(policy: str) -> Path:
        topics, options = {"include": [r"c\..*"]}, {"metadata.max.age.ms": "1000"}
        return write_kafka_pipeline(
            tmp_path, kafka.bootstrap_servers, topics, options, on_data_loss=policy, interval="8s"
        )

    with running_kafka(tmp_path / "broker") as kafka:
        for topic in (CUT, ANEW):
            kafka.create(topic)
            kafka.produce(topic, insert_events(topic, range(10)))
        first = run_together([file("fail")])
        assert first.returncode == 0, first.stderr

        kafka.produce(CUT, insert_events(CUT, range(10, 20)))
        kafka.delete_records(CUT, 15)
        kafka.delete(ANEW)
        kafka.create(ANEW)
        kafka.produce(ANEW, insert_events(ANEW, range(100, 103)))
        refused = run_together([file("fail")])
        assert refused.returncode == 1, refused.stderr
        assert f"topic {CUT} partition 0: offsets 10 to 14 are gone (retention, or deleted records)" in refused.stderr
        assert f"topic {ANEW} partition 0: offsets from 10 on are gone" in refused.stderr
        assert "set `on_data_loss: continue`" in refused.stderr

        with running(file("continue"), log) as process:

            def holds(topic: str, ids: list[int]) -> Callable[[], bool]:
                def looked() -> bool:
                    assert process.poll() is None, log.read_text()
                    return row_ids(tmp_path, topic)[-len(ids) :] == ids

                return looked

            kept = [*range(10), *range(15, 20)]
            wait_until(holds(CUT, kept), 120, "the rows that are left")
            wait_until(holds(ANEW, [*range(10), 100, 101, 102]), 60, "the rows of the new topic")
            text = log.read_text()
            assert f"topic {CUT} partition 0: offsets 10 to 14 are gone" in text
            assert (
                f"topic {ANEW} partition 0: offsets from 10 on are gone (the topic was deleted and recreated)" in text
            )

            for begin in range(20, 68, 12):  # a batch may begin just before the deletion
                kafka.produce(CUT, insert_events(CUT, range(begin, begin + 10)))
                kafka.delete_records(CUT, begin + 10)
                kafka.produce(CUT, insert_events(CUT, range(begin + 10, begin + 12)))
                wait_until(holds(CUT, [begin + 10, begin + 11]), 60, "the rows behind the second loss")
                lost = set(range(begin, begin + 10)) - set(row_ids(tmp_path, CUT))
                if lost:
                    break
            assert lost, "each batch was faster than the deletion"

            kafka.delete(ANEW)
            kafka.create(ANEW)
            kafka.produce(ANEW, insert_events(ANEW, range(200, 205)))
            wait_until(holds(ANEW, [*range(200, 205)]), 90, "the rows of the newest topic")
            assert f"topics were recreated: {ANEW}" in log.read_text()
            process.terminate()
            assert process.wait(timeout=seconds(60)) == 0, log.read_text()

        shutil.rmtree(tmp_path / "shop-checkpoint")
        kafka.produce(ANEW, insert_events(ANEW, range(205, 215)))
        resumed = run_together([file("fail")])
        assert resumed.returncode == 0, resumed.stderr
        assert [row for row in row_ids(tmp_path, ANEW) if row >= 200] == [*range(200, 215)]
        assert says(f"topic {CUT} partition 0: offsets {min(lost)} to {max(lost)} are gone")(), log.read_text()
        # A topic that is looked at between its deletion and its creation is told of in both states.
        assert len({*re.findall(r"topic \S+ partition 0: offsets .*? are gone", log.read_text())}) == 4
