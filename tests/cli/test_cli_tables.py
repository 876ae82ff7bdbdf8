"""Oracle: pandas, for whole tables; for broken ones the line that was broken on purpose, named in the message."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest

from dtmgp.cli import tables
from dtmgp.cli.console import split_names, split_numbers
from dtmgp.cli.options import parse_bounds
from dtmgp.cli.tables import numeric_columns, read_table, write_table
from dtmgp.errors import InputError

WHOLE = "a,b,label\n1,2.5,x\n-3e-2,4,y\n0.1,7,z\n"


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace(",", ";"),
        WHOLE.replace(",", "\t"),
        "\ufeff" + WHOLE,
        WHOLE + "\n\n",
        WHOLE.replace("x", '"x"'),
    ],
    ids=["plain", "crlf", "semicolons", "tabs", "byte order mark", "blank lines", "quotes"],
)
def test_whole_tables_are_read_as_pandas_reads_them(tmp_path, text):
    expected = pd.read_csv(io.StringIO(WHOLE))
    found = read_table(written(tmp_path, text))
    assert list(found.columns) == ["a", "b", "label"]
    assert found["a"].tolist() == expected["a"].tolist()
    assert found["b"].tolist() == expected["b"].tolist()
    assert found["label"].tolist() == ["x", "y", "z"]


def test_quoted_cells_may_hold_separators_and_line_ends(tmp_path):
    found = read_table(written(tmp_path, 'a,"b, c",d\n1,2,"one\ntwo"\n3,4,"x,y"\n'))
    assert list(found.columns) == ["a", "b, c", "d"]
    assert found["d"].tolist() == ["one\ntwo", "x,y"]


def test_numbers_keep_every_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    frame = pd.DataFrame({"a": values})
    write_table(frame, str(tmp_path / "a.csv"))
    write_table(frame, str(tmp_path / "a.parquet"))
    for name in ("a.csv", "a.parquet"):
        assert np.array_equal(read_table(str(tmp_path / name))["a"], values)


def test_chunks_are_joined_whatever_they_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CHUNK", 2)
    found = read_table(written(tmp_path, "a,b\n1,1\n2,2\n3,x\n,4\n5,5\n"))
    assert found["b"].tolist() == ["1", "2", "x", "4", "5"]
    np.testing.assert_array_equal(found["a"], [1, 2, 3, np.nan, 5])


def test_parquet_integers_and_booleans_are_numbers(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": ["x", "y"]})
    frame.to_parquet(tmp_path / "t.parquet")
    found = read_table(str(tmp_path / "t.parquet"))
    assert found["a"].dtype == found["b"].dtype == np.float64
    assert found["c"].tolist() == ["x", "y"]


BROKEN = {
    "empty file": (b"", "an empty file"),
    "blank lines only": (b"\n \n", "an empty file"),
    "no rows": (b"a,b\n", "column names only"),
    "short line": (b"a,b\n1,2\n3\n", "line 3: got 1 cells; expected 2"),
    "long line": (b"a,b\n1,2\n\n3,4,5\n", "line 4: got 3 cells; expected 2"),
    "duplicate names": (b"a,b,a\n1,2,3\n", "the column name 'a' more than once"),
    "unnamed column": (b",a\n0,1\n", "no name for column 1 of 2"),
    "no header": (b"0.5,1\n2,3\n", "a file without a header"),
    "latin-1": ("a,größe\n1,2\n".encode("latin-1"), "byte 0xf6 in line 1, which is no UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "binary": (b"a\x00b,c\n1,2\n", "zero bytes"),
    "parquet cut short": (b"PAR1" + b"\x01" * 40, "a complete Parquet file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables_are_refused_with_the_place(tmp_path, name):
    content, message = BROKEN[name]
    with pytest.raises(InputError) as caught:
        read_table(written(tmp_path, content))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(str(tmp_path / "no.csv"))
    with pytest.raises(InputError, match="directory"):
        read_table(str(tmp_path))
    with pytest.raises(InputError, match="no folder"):
        write_table(pd.DataFrame({"a": [1.0]}), str(tmp_path / "no" / "out.csv"))


def test_columns_are_checked_by_name(tmp_path):
    table = read_table(written(tmp_path, "load,speed,name\n1,2,x\n,4,y\ninf,6,z\n7,8,w\n"))
    with pytest.raises(InputError, match="did you mean 'load'"):
        numeric_columns(table, ["laod"], "t")
    with pytest.raises(InputError, match="the text 'x' in row 1"):
        numeric_columns(table, ["name"], "t")
    comma = read_table(written(tmp_path, "a;b\n1,5;2\n", "comma.csv"))
    with pytest.raises(InputError, match="a decimal comma"):
        numeric_columns(comma, ["a"], "t")
    with pytest.raises(InputError, match="2 of 4 rows, first in row 2"):
        numeric_columns(table, ["load"], "t")
    kept, keep = numeric_columns(table, ["load", "speed"], "t", drop_missing=True)
    assert keep.tolist() == [True, False, False, True]
    assert kept["speed"].tolist() == [2.0, 8.0]
    empty = read_table(written(tmp_path, "a,b\n,1\nNA,2\n"))
    with pytest.raises(InputError, match="in every row"):
        numeric_columns(empty, ["a"], "t", drop_missing=True)


def test_standard_streams(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    table = read_table("-")
    write_table(table, "-")
    assert capsys.readouterr().out == "a,b\n1.0,2.0\n"


def test_texts_of_options():
    assert split_names('a, "b, c"') == ["a", "b, c"]
    assert parse_bounds("a b=0:1,c=-1e3:5") == {"a b": (0.0, 1.0), "c": (-1000.0, 5.0)}
    assert split_numbers("0.05, 0.5", "--quantiles", 0, 1) == [0.05, 0.5]
    for bad in ("a", "a=1", "a=1:1", "a=2:1", "a=0:1,a=0:2", "a=0:inf", "=0:1"):
        with pytest.raises(InputError, match="NAME=LOW:HIGH"):
            parse_bounds(bad)
    for bad in ("", "0", "1", "x"):
        with pytest.raises(InputError):
            split_numbers(bad, "--quantiles", 0, 1)
    with pytest.raises(InputError):
        split_names("a,a")
