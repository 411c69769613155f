"""Positions in the logs of sources, as text."""

from __future__ import annotations

from typing import Any

import pytest

from sources.places_of_change import UNKNOWN_PLACE, place_of_change, position_text

TOLD = {"id": "7", "total_order": 2, "data_collection_order": 1}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"sequence": '["24023119","24023128"]', "lsn": 24023128}, "24023119:24023128"),
        ({"sequence": '[null,"24023128"]', "lsn": 24023128}, "24023128"),
        ({"sequence": "no JSON", "lsn": 5}, "5"),
        ({"sequence": None, "lsn": 5}, "5"),
        ({"file": "mysql-bin.000003", "pos": 154, "row": 0, "gtid": None}, "mysql-bin.000003:154:0"),
        ({"file": "mysql-bin.000003", "pos": 154}, "mysql-bin.000003:154"),
        ({"file": "", "pos": 0, "lsn": 7}, "7"),
        (
            {"change_lsn": "00000027:00000758:0003", "commit_lsn": "00000027:00000758:0005", "event_serial_no": 2},
            "00000027:00000758:0003:2",
        ),
        ({"change_lsn": None, "commit_lsn": "00000027:00000758:0005"}, "00000027:00000758:0005"),
        ({"scn": "2868546", "commit_scn": "2868999"}, "2868546"),
        ({"ts_ms": 1735689600000, "ord": 3, "sequence": None}, "1735689600000:3"),
        ({"vgtid": '[{"keyspace":"k"}]'}, '[{"keyspace":"k"}]'),
        ({"ts_ms": 1735689600000}, None),
        ({"lsn": True}, None),
        ({}, None),
    ],
)
def test_the_position_is_what_the_kind_of_source_tells(source: dict[str, Any], text: str | None) -> None:
    assert position_text(source) == text


@pytest.mark.parametrize(
    ("envelope", "place"),
    [
        (
            {"source": {"lsn": 5}, "transaction": {"id": "7", "total_order": 2, "data_collection_order": 1}},
            ("5", "7", 2, 1),
        ),
        ({"source": {"lsn": 5}, "transaction": None}, ("5", None, None, None)),
        ({"source": {}, "transaction": {"id": 7, "total_order": 1 << 64}}, (None, "7", None, None)),
        ({"transaction": "7"}, UNKNOWN_PLACE),
        ([], UNKNOWN_PLACE),
        (None, UNKNOWN_PLACE),
    ],
)
def test_a_place_is_what_an_envelope_tells(envelope: Any, place: Any) -> None:
    assert place_of_change(envelope) == place
