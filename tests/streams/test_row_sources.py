"""Oracle: the arrays that were written."""

from __future__ import annotations

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import arrays, table, write

from dtmgp.errors import InputError
from dtmgp.streams import ArrayRows, BatchRows, FieldRows, ParquetRows, survey


def everything(rows):
    """All rows of a source, in order."""
    blocks = [block for k in range(rows.row_groups) for block in rows.blocks(k)]
    for k in range(rows.row_groups):  # rows are numbered within their row group
        numbers = np.concatenate([block.row for block in rows.blocks(k)])
        np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
    return np.concatenate([b.x for b in blocks]), np.concatenate([b.y for b in blocks])


def parquet_folder(columns, path):
    return ParquetRows(write(path / "runs", columns), "y")


def parquet_file(columns, path):
    pq.write_table(pa.table(columns), path / "one.parquet", row_group_size=300)
    return ParquetRows(path / "one.parquet", "y", ["x0", "x1", "x2"])


def in_memory(columns, path):
    return ArrayRows(*arrays(columns))


def memory_map(columns, path):
    x, y = arrays(columns)
    for name, values in (("x", x), ("y", y)):
        np.save(path / f"{name}.npy", values)
    return ArrayRows(*(np.load(path / f"{name}.npy", mmap_mode="r") for name in ("x", "y")))


def hdf5(columns, path):
    x, y = arrays(columns)
    file = h5py.File(path / "runs.h5", "w")
    return ArrayRows(
        file.create_dataset("x", data=x, chunks=(128, 3)), file.create_dataset("y", data=y, chunks=(100,))
    )


def zarr_array(columns, path):
    zarr = pytest.importorskip("zarr")
    x, y = arrays(columns)
    made = []
    for name, values in (("x", x), ("y", y)):
        made.append(
            zarr.create_array(path / name, shape=values.shape, chunks=(90, *values.shape[1:]), dtype="f8")
        )
        made[-1][...] = values
    return ArrayRows(*made)


def frames(columns, path):
    whole = pd.DataFrame(columns)
    return BatchRows([whole[:100], whole[100:350], whole[350:]], "y")


def record_batches(columns, path):
    return BatchRows(lambda: pa.table(columns).to_batches(max_chunksize=77), "y")


def pairs(columns, path):
    x, y = arrays(columns)
    return BatchRows(lambda: ((x[k : k + 99], y[k : k + 99]) for k in range(0, len(x), 99)))


SOURCES = [
    parquet_folder,
    parquet_file,
    in_memory,
    memory_map,
    hdf5,
    zarr_array,
    frames,
    record_batches,
    pairs,
]


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_sources_give_the_rows_that_were_written(make, tmp_path):
    columns = table()
    rows = make(columns, tmp_path)
    x, y = everything(rows)
    expected = arrays(columns)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y[:, 0], expected[1])
    assert rows.names == ("x0", "x1", "x2")
    assert rows.flat


def test_whole_numbers_partitions_and_kinds_become_floats(tmp_path):
    for scale, kind in ((1, pa.int32()), (2, pa.float32())):
        folder = tmp_path / "runs" / f"scale={scale}"
        folder.mkdir(parents=True)
        y = pa.array([1.0 * scale, None], pa.float64())
        pq.write_table(
            pa.table({"a": pa.array([3, 4], kind), "b": [True, False], "y": y}), folder / "p.parquet"
        )
    rows = ParquetRows(tmp_path / "runs", "y", drop_missing=True)
    x, y = np.concatenate([b.x for k in range(2) for b in rows.blocks(k)]), everything_y(rows)
    assert rows.names == ("a", "b", "scale")
    np.testing.assert_array_equal(x, [[3.0, 1.0, 1.0], [3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(y, [1.0, 2.0])


def everything_y(rows):
    return np.concatenate([b.y[:, 0] for k in range(rows.row_groups) for b in rows.blocks(k)])


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    columns = table()
    rows = ParquetRows(write(tmp_path / "runs", {**columns, "text": np.array(["a"] * 1000)}), "y", ["x1"])
    np.testing.assert_array_equal(everything(rows)[0][:, 0], columns["x1"])


def test_several_outputs_and_their_names(tmp_path):
    columns = table()
    rows = ParquetRows(write(tmp_path / "runs", columns), ["y", "x2"])
    assert (rows.names, rows.targets, rows.flat) == (("x0", "x1"), ("y", "x2"), False)
    np.testing.assert_array_equal(everything(rows)[1], np.stack([columns["y"], columns["x2"]], axis=1))


def test_a_field_is_its_points(tmp_path):
    lat, lon, height = np.linspace(-1, 1, 7), np.arange(5.0), np.array([0.0, 2.0])
    values = np.random.default_rng(0).normal(size=(7, 5, 2))
    with h5py.File(tmp_path / "field.h5", "w") as file:
        stored = file.create_dataset("t", data=values, chunks=(2, 5, 2))
        rows = FieldRows(stored, {"lat": lat, "lon": lon, "height": height}, target="t")
        x, y = everything(rows)
    expected = np.stack([part.ravel() for part in np.meshgrid(lat, lon, height, indexing="ij")], axis=1)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y[:, 0], values.ravel())


def test_a_field_with_large_slices_comes_in_blocks():
    values = np.random.default_rng(0).normal(size=(3, 200, 300))
    rows = FieldRows(values, {"a": [0.0, 1.0, 2.0], "b": np.arange(200.0), "c": np.arange(300.0)})
    assert rows.row_groups == 3
    assert max(len(b.x) for k in range(3) for b in rows.blocks(k)) <= 1 << 14
    x, y = everything(rows)
    a, b, c = x.astype(int).T
    np.testing.assert_array_equal(y[:, 0], values[a, b, c])
    np.testing.assert_array_equal(np.ravel_multi_index((a, b, c), values.shape), np.arange(values.size))


def broken(tmp_path, files):
    for name, columns in files.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    return tmp_path


NUMBERS = {"a": [0.0, 1.0], "y": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("files", "inputs", "message"),
    [
        ({"p": NUMBERS}, ["b"], "no column 'b'.*There is a, y"),
        ({"p": {"alpha": [0.0], "y": [1.0]}}, ["alpa"], "did you mean 'alpha'"),
        ({"p": {"a": ["u", "v"], "y": [1.0, 2.0]}}, None, "column 'a': got the type string"),
        (
            {"p": NUMBERS, "q": {"b": [1.0], "y": [1.0]}},
            None,
            "q.parquet: got no column 'a'.*different schemas",
        ),
        ({"p": NUMBERS, "q": {**NUMBERS, "b": [1.0, 2.0]}}, None, "q.parquet: got the column 'b'"),
        ({"p": {**NUMBERS, "b": [1.0, 2.0]}, "q": NUMBERS}, None, "q.parquet: got no column 'b'"),
        ({"p": NUMBERS, "q": {"a": ["u"], "y": [1.0]}}, None, "q.parquet, column 'a': got the type string"),
        ({}, None, "no Parquet file in it"),
        ({"p": {"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}}, None, "got no rows"),
        ({"p": {"y": [1.0]}}, None, "inputs: got no column"),
        ({"p": NUMBERS}, ["y"], "'y', a target"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_before_anything_is_read(tmp_path, files, inputs, message):
    with pytest.raises(InputError, match=message):
        ParquetRows(broken(tmp_path, files), "y", inputs)


def test_damaged_and_missing_files_are_refused(tmp_path):
    write(tmp_path / "runs", table())
    content = (tmp_path / "runs" / "part-1.parquet").read_bytes()
    (tmp_path / "runs" / "part-1.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="complete Parquet"):
        ParquetRows(tmp_path / "runs", "y")
    with pytest.raises(InputError, match="no such file or folder"):
        ParquetRows(tmp_path / "other", "y")


def test_missing_values_name_file_row_group_row_and_count(tmp_path):
    columns = table()
    columns["x1"][[500, 510, 512]] = np.nan  # of part-1: rows 333 to 665, row group 2 begins at 461
    folder = write(tmp_path / "runs", columns)
    with pytest.raises(
        InputError, match=r"'x1': got NaN in row 39 of row group 2 of part-1.parquet and in 2"
    ):
        survey(ParquetRows(folder, "y"))
    kept = survey(ParquetRows(folder, "y", drop_missing=True))
    assert kept.rows == 997
    columns["y"][3] = np.inf
    with pytest.raises(InputError, match=r"output column 'y': got inf or -inf in row 3 of row group 0"):
        survey(ParquetRows(write(tmp_path / "runs", columns), "y"))


def test_batches_that_cannot_be_repeated_are_refused():
    x, y = arrays(table(100))
    with pytest.raises(InputError, match=r"gone through once.*lambda"):
        BatchRows(pair for pair in [(x, y)])
    used = iter([(x, y)])
    rows = BatchRows(lambda: used)  # a function, but of one iterator: seen when it is read again
    with pytest.raises(InputError, match=r"got 0 that can be used"):
        survey(rows)


@pytest.mark.parametrize(
    ("batches", "target", "message"),
    [
        ([], None, "got none"),
        ([(np.zeros(3), np.zeros(3))], None, "arrays of numbers"),
        ([(np.zeros((3, 1)), np.zeros(2))], None, "arrays of numbers"),
        ([(np.zeros((3, 1)), np.zeros(3)), (np.zeros((3, 2)), np.zeros(3))], None, "batch 1: got 2 inputs"),
        ([(np.zeros((3, 1)), np.zeros(3))], "y", "have no names"),
        ([pd.DataFrame(NUMBERS)], None, "target: got None"),
        ([pd.DataFrame(NUMBERS), pd.DataFrame({"a": [1.0]})], "y", "batch 1: got no column 'y'"),
        ([pd.DataFrame({"a": ["u"], "y": [1.0]})], "y", "batch 0, column 'a'"),
        ([pa.table({"a": ["u"], "y": [1.0]})], "y", "batch 0, column 'a'"),
        ([{"a": 1.0}], None, "batch 0: got dict"),
        (3, None, "got int; expected an iterable"),
    ],
)
def test_batches_that_cannot_be_used_are_refused(batches, target, message):
    with pytest.raises(InputError, match=message):
        survey(BatchRows(batches, target))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ArrayRows(np.zeros((3, 2)), np.zeros(4)),
        lambda: ArrayRows(np.zeros(3), np.zeros(3)),
        lambda: ArrayRows([[0.0]], [0.0]),
        lambda: ArrayRows(np.zeros((3, 2)), np.zeros(3), names=["a", "a"]),
        lambda: FieldRows(np.zeros((3, 2)), {"a": np.zeros(3)}),
        lambda: FieldRows(np.zeros((3, 2)), {"a": np.zeros(3), "b": np.zeros(3)}),
        lambda: survey(ArrayRows(np.array([["a"]]), np.zeros(1))),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(make):
    with pytest.raises(InputError):
        make()
