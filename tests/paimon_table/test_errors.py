"""The error tree: what every class tells its caller, and what is left of an error behind a pickle."""

from __future__ import annotations

import pickle

import pytest

from paimon_table.errors import (
    Action,
    BrokenInvariant,
    BucketCountChanged,
    CommitConflict,
    CommitOutcomeUnknown,
    ConfigError,
    CorruptFile,
    LanesDoNotFit,
    MachineFailure,
    MalformedRecord,
    Outage,
    RolledBack,
    SchemaChangeRefused,
    SinkUnavailable,
    TidemarkError,
    UnsupportedFeature,
    error_classes,
)

EXPECTED: dict[type[TidemarkError], Action] = {
    BrokenInvariant: Action.STOP,
    BucketCountChanged: Action.FIX_REQUEST,
    CommitConflict: Action.RETRY,
    CommitOutcomeUnknown: Action.VERIFY,
    ConfigError: Action.FIX_REQUEST,
    CorruptFile: Action.STOP,
    LanesDoNotFit: Action.STOP,
    MalformedRecord: Action.QUARANTINE,
    RolledBack: Action.RETRY,
    SchemaChangeRefused: Action.QUARANTINE,
    SinkUnavailable: Action.RETRY,
    MachineFailure: Action.RETRY,
    Outage: Action.RETRY,
    UnsupportedFeature: Action.FIX_REQUEST,
}


def test_every_class_says_what_the_caller_may_do() -> None:
    of_engine = {kind for kind in error_classes().values() if kind.__module__ == "paimon_table.errors"}

    assert {kind: kind.action for kind in of_engine} == EXPECTED
    assert all(isinstance(kind.action, Action) for kind in error_classes().values())


@pytest.mark.parametrize("kind", list(EXPECTED))
def test_an_error_comes_back_from_a_task_as_it_was(kind: type[TidemarkError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what, which, what next")))

    assert type(error) is kind
    assert str(error) == "what, which, what next"


def test_what_a_refusal_is_about_survives_a_pickle_and_another_text() -> None:
    refusal = UnsupportedFeature("option 'bucket' = -1", option="bucket", column="id")

    told = pickle.loads(pickle.dumps(refusal.told(f"table lake.orders: {refusal}")))

    assert isinstance(told, UnsupportedFeature)
    assert (str(told), told.option, told.column) == ("table lake.orders: option 'bucket' = -1", "bucket", "id")
    assert str(refusal) == "option 'bucket' = -1"


def test_only_errors_that_may_pass_are_worth_another_try() -> None:
    assert [action for action in Action if action.may_pass] == [Action.RETRY, Action.VERIFY]
