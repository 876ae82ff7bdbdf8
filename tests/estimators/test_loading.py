"""Oracle: the class that wrote the file."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp import TMGPRegressor
from dtmgp.errors import InputError
from dtmgp.estimators.loading import kind_of, load_model
from dtmgp.files import write_model


def test_the_class_that_saved_a_file_reads_it(tmp_path):
    x = np.random.default_rng(0).uniform(size=(20, 1))
    model = TMGPRegressor(max_evaluations=3).fit(x, x[:, 0])
    model.save(tmp_path / "model.dtmgp")
    again = load_model(tmp_path / "model.dtmgp")
    assert type(again) is TMGPRegressor
    assert np.array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "another program"),
        (b"x,y\n1,2\n", "another program"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{}", "another program"),
        (b"\xff" * 40, "another program"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_model(tmp_path / "file")


def test_unknown_kinds_and_missing_files_are_refused(tmp_path):
    write_model(tmp_path / "new.dtmgp", "ModelOfTheFuture", {}, {})
    assert kind_of(tmp_path / "new.dtmgp") == "ModelOfTheFuture"
    with pytest.raises(InputError, match="update dtmgp"):
        load_model(tmp_path / "new.dtmgp")
    with pytest.raises(InputError, match="No such file"):
        load_model(tmp_path / "missing.dtmgp")


def test_a_damaged_file_of_a_known_kind_is_refused(tmp_path):
    path = tmp_path / "model.dtmgp"
    TMGPRegressor(max_evaluations=3).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        load_model(path)
