"""Rows that stay where they are: Parquet folders, arrays on disk and batches made on the way, read piece by piece.

Lives here: row sources, the one pass that surveys them, the shuffled stream that a training loop reads.
May not live here: models. Only `dtmgp.streams.epochs` needs torch.
"""

from dtmgp.streams.arrays import ArrayRows, FieldRows
from dtmgp.streams.base import AbstractRows, Block, Streaming
from dtmgp.streams.batches import BatchRows
from dtmgp.streams.parquet import ParquetRows
from dtmgp.streams.survey import Survey, survey

__all__ = [
    "AbstractRows",
    "ArrayRows",
    "BatchRows",
    "Block",
    "FieldRows",
    "ParquetRows",
    "Streaming",
    "Survey",
    "survey",
]
