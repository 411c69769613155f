"""The topic partitions that the records of a batch are from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def topic_partitions(batch: pa.RecordBatch) -> list[tuple[str, int, npt.NDArray[np.int64]]]:
    """Positions of the records of each topic partition, in arrival order, in order of first sight."""
    if batch.num_rows == 0:
        return []
    topics = batch.column("topic")
    topics = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
    partitions = batch.column("partition").dictionary_encode()
    codes = np.asarray(topics.indices).astype(np.int64) * len(partitions.dictionary) + np.asarray(partitions.indices)
    groups: list[tuple[str, int, npt.NDArray[np.int64]]] = []
    distinct, first = np.unique(codes, return_index=True)
    for code in distinct[np.argsort(first)]:
        topic, partition = divmod(int(code), len(partitions.dictionary))
        members = np.flatnonzero(codes == code).astype(np.int64)
        groups.append((topics.dictionary[topic].as_py(), partitions.dictionary[partition].as_py(), members))
    return groups
