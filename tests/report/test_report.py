"""Oracle: the page itself, parsed again: one file, no address to load from, its numbers those of the analyses."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("plotly")
pd = pytest.importorskip("pandas")

from dtmgp import TMGPRegressor  # noqa: E402
from dtmgp.analysis import validate  # noqa: E402
from dtmgp.errors import InputError  # noqa: E402
from dtmgp.report import write_report  # noqa: E402

NASTY = 'load <script>alert("1")</script> & [1/h]'


class Page(HTMLParser):
    """Elements with their attributes, texts by element id, and words of the body."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.words, self.stack = [], {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.stack.append(dict(attrs).get("id", tag))
        if "id" in dict(attrs):
            self.ids[dict(attrs)["id"]] = ""

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.stack.pop()

    def handle_data(self, data):
        if self.stack:
            self.ids[self.stack[-1]] = self.ids.get(self.stack[-1], "") + data
        else:
            self.words.append(data)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.repeat(rng.uniform(size=(70, 2)), 4, axis=0), columns=[NASTY, "size_kg"])
    y = pd.Series(X.iloc[:, 0] ** 2 + X.iloc[:, 1] + 0.1 * rng.normal(size=280), name="wait_ms")
    model = TMGPRegressor(level=5, bounds=[[0, 1]] * 2).fit(X[:160], y[:160])
    return model, X, y


@pytest.fixture(scope="module")
def page(case, tmp_path_factory):
    model, X, y = case
    folder = tmp_path_factory.mktemp("report")
    path = write_report(
        model, X[160:], y[160:], folder / "a.html", X_train=X[:160], y_train=y[:160], random_state=3
    )
    assert [p.name for p in folder.iterdir()] == ["a.html"]  # no part file is left
    return path, Page(path.read_text())


def test_one_small_file_that_loads_nothing(page):
    path, parsed = page
    assert path.stat().st_size < 5_000_000
    loading = [(tag, a) for tag, a in parsed.tags if {"src", "srcset", "data", "action"} & a.keys()]
    assert not loading
    assert not [tag for tag, _ in parsed.tags if tag in ("link", "iframe", "object", "embed", "base")]
    assert all(a["href"].startswith("#") for tag, a in parsed.tags if tag == "a")
    assert "url(" not in parsed.ids["style"]
    assert "@import" not in parsed.ids["style"]
    policy = next(a["content"] for tag, a in parsed.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_plotly_is_there_once_and_whole(page):
    import base64
    import gzip

    from plotly.offline import get_plotlyjs

    path, parsed = page
    assert gzip.decompress(base64.b64decode(parsed.ids["plotly-gzip"])).decode() == get_plotlyjs()
    assert path.read_text().count('id="plotly-gzip"') == 1


def test_names_of_users_stay_text(page):
    _, parsed = page
    assert "alert(" not in "".join(value for key, value in parsed.ids.items() if key == "script")
    assert 'load <script>alert("1")</script> &' in "".join(parsed.words)
    data = json.loads(parsed.ids["page-data"])
    assert "<script" not in parsed.ids["page-data"]
    assert data["profiler"]["inputs"][0]["label"] == NASTY
    titles = json.dumps(data["figures"])
    assert "<script" not in titles
    assert "size [kg]" in titles
    assert "wait [ms]" in titles


def test_every_figure_has_a_place_and_every_section_a_heading(page):
    _, parsed = page
    figures = json.loads(parsed.ids["page-data"])["figures"]
    places = {a["id"] for _, a in parsed.tags if a.get("class") == "plot"}
    assert places == figures.keys()
    expected = {
        "parity",
        "pit",
        "qq",
        "coverage",
        "regions",
        "map",
        "ksmap",
        "effect0",
        "effect1",
        "sobol-mean",
    }
    assert {f"o0-{name}" for name in expected} <= figures.keys()
    sections = [a["id"] for tag, a in parsed.tags if tag == "section"]
    assert sections == [
        "data",
        "accuracy",
        "calibration",
        "regions",
        "effects",
        "profiler",
        "training",
        "facts",
    ]
    assert [a["href"][1:] for tag, a in parsed.tags if tag == "a"] == sections


def test_numbers_are_those_of_the_analyses(case, page):
    model, X, y = case
    _, parsed = page
    found = validate(model, X[160:], y[160:], draws=256, random_state=3)
    words = " ".join(parsed.words)
    assert f"{found.crps.mean():.4g}" in words
    assert f"{found.coverage([0.9])[0]:.1%}" in words
    figures = json.loads(parsed.ids["page-data"])["figures"]
    shown = [v for trace in figures["o0-parity"]["data"][:2] for v in trace["y"]]
    np.testing.assert_allclose(np.sort(shown), np.sort(y[160:]), rtol=1e-4)
    np.testing.assert_allclose(
        figures["o0-coverage"]["data"][-1]["y"], found.coverage(np.linspace(0.02, 0.98, 49)), rtol=1e-4
    )
    assert "seed of this page" in words
    assert "random_state" in words
    assert "dual evidence" in words or "primal evidence" in words


def test_trace_and_several_outputs(case, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(120, 1))
    Y = np.stack([X[:, 0], -(X[:, 0] ** 2)], axis=1) + 0.1 * rng.normal(size=(120, 2))
    model = TMGPRegressor(level=4, bounds=[[0, 1]]).fit(X[:80], Y[:80])
    model.trace_ = [
        SimpleNamespace(number=k, loss=1.0 / k, validation=np.nan, seconds=0.5) for k in (1, 2, 3)
    ]
    path = write_report(
        model, X[80:], Y[80:], tmp_path / "b.html", output_names=["first", "second"], draws=16
    )
    parsed = Page(path.read_text())
    data = json.loads(parsed.ids["page-data"])
    assert {"o0-pit", "o1-pit", "loss"} <= data["figures"].keys()
    assert [output["label"] for output in data["profiler"]["outputs"]] == ["first", "second"]
    assert "profile-output" in parsed.ids
    assert "3 epochs in 1.5 s." in " ".join(parsed.words)
    assert "training data were not given" in " ".join(parsed.words)


def test_an_old_page_stays_if_writing_fails(case, tmp_path, monkeypatch):
    model, X, y = case
    path = tmp_path / "c.html"
    path.write_text("old")
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(InputError, match="No space left"):
        write_report(model, X[160:], y[160:], path, draws=8, effect_samples=4)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["c.html"]


def test_refusals(case, tmp_path):
    model, X, y = case
    with pytest.raises(InputError, match="no folder"):
        write_report(model, X, y, tmp_path / "missing" / "a.html")
    with pytest.raises(InputError, match="both or neither"):
        write_report(model, X, y, tmp_path / "a.html", X_train=X)
    with pytest.raises(InputError, match="no column 'size_kg'"):
        write_report(model, X.rename(columns={"size_kg": "mass"}), y, tmp_path / "a.html")
    with pytest.raises(InputError, match="output_names"):
        write_report(model, X, y, tmp_path / "a.html", output_names=["a", "b"])
    with pytest.raises(InputError, match="held-out"):
        write_report(model, X, y[:-1], tmp_path / "a.html")
    with pytest.raises(InputError, match="random_state"):
        write_report(model, X, y, tmp_path / "a.html", random_state=-1)
    assert not list(tmp_path.iterdir())


def test_one_column_tables_and_many_rows(case, tmp_path, monkeypatch):
    model, X, y = case
    monkeypatch.setattr("dtmgp.report.write.MOST_TEST_ROWS", 50)
    path = write_report(model, X[160:], y[160:].to_frame(), tmp_path / "d.html", draws=8, effect_samples=4)
    words = " ".join(Page(path.read_text()).words)
    assert "Of 120 held-out rows one in 3 is used." in words
    assert "wait [ms]" in words
