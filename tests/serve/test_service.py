"""Oracle: the Python methods of the same model; what is refused, with the status that the policy states."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest
from served_models import NAMES, client, frame, small_model

from dtmgp.errors import InputError
from dtmgp.estimators.loading import load_model
from dtmgp.serve import Policy, ServedModel
from dtmgp.serve.answers import STREAM_PART
from dtmgp.serve.guard import host_name

ROWS = [[0.2, 10.0], [0.7, 44.0], [1.4, 60.0]]
TOKEN = "a-token-of-more-than-16-letters"


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def service(model):
    with client(model) as open_client:
        yield open_client


def test_predict_is_predict(model, service):
    answer = service.post("/predict", json={"inputs": ROWS, "coverage": 0.8}).json()
    mean, std = model.predict(frame(ROWS), return_std=True)
    low, high = model.predict_interval(frame(ROWS), 0.8)
    for name, expected in {"mean": mean, "std": std, "low": low, "high": high}.items():
        np.testing.assert_allclose(answer[name], expected, rtol=1e-12)
    assert answer["outputs"] == ["y"]
    assert answer["coverage"] == 0.8


def test_rows_may_be_objects_by_name(service):
    named = [dict(zip(reversed(NAMES), reversed(row))) for row in ROWS]
    assert (
        service.post("/predict", json={"inputs": named}).json()
        == service.post("/predict", json={"inputs": ROWS}).json()
    )


def test_extrapolation_is_flagged_by_name(service):
    answer = service.post("/predict", json={"inputs": [*ROWS, [1.5, 10.0]]}).json()
    assert answer["extrapolates"] == [[], [], NAMES, ["load"]]


def test_quantiles_and_draws(model, service):
    answer = service.post("/quantiles", json={"inputs": ROWS, "levels": [0.1, 0.5, 0.99]}).json()
    np.testing.assert_allclose(
        answer["quantiles"], model.predict_quantiles(frame(ROWS), [0.1, 0.5, 0.99]), rtol=1e-12
    )
    answer = service.post("/sample", json={"inputs": ROWS, "number": 7, "seed": 3}).json()
    np.testing.assert_allclose(answer["draws"], model.sample_y(frame(ROWS), 7, 3), rtol=1e-12)
    body = {"inputs": ROWS, "number": 7, "seed": 3, "functions": True}
    np.testing.assert_allclose(
        service.post("/sample", json=body).json()["draws"],
        model.sample_functions(frame(ROWS), 7, 3),
        rtol=1e-12,
    )


def test_several_outputs_keep_the_shapes_of_python():
    model = small_model(outputs=2)
    with client(model) as two:
        answer = two.post("/predict", json={"inputs": ROWS}).json()
        np.testing.assert_allclose(answer["mean"], model.predict(frame(ROWS)), rtol=1e-12)
        assert answer["outputs"] == ["y0", "y1"]
        picture = two.post("/profile", json={"at": ROWS[0], "output": 1}).json()
        assert picture["mean"] == pytest.approx(model.predict(frame(ROWS[:1]))[0, 1], rel=1e-12)
        assert two.post("/profile", json={"at": ROWS[0], "output": 2}).status_code == 422
        body = {"at": ROWS[0], "output": 1, "goal": "reach", "value": -1.0}
        assert two.post("/target", json=body).json()["value"] == pytest.approx(-1.0, abs=1e-4)


def test_lines_in_lines_out(model, service):
    rng = np.random.default_rng(1)
    rows = rng.uniform(size=(STREAM_PART + 100, 2)) * [1.0, 50.0]
    body = "\n".join(json.dumps(row) for row in rows.tolist()) + "\n\n"
    answer = service.post(
        "/predict?coverage=0.5", content=body, headers={"content-type": "application/x-ndjson"}
    )
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["row"] for line in lines] == list(range(len(rows)))
    mean = model.predict(frame(rows))
    np.testing.assert_allclose([line["mean"] for line in lines], mean, rtol=1e-12)
    low, _ = model.predict_interval(frame(rows), 0.5)
    np.testing.assert_allclose([line["low"] for line in lines], low, rtol=1e-12)


def test_streamed_functions_are_the_same_functions(model, service):
    rows = [[0.5, 25.0]] * (STREAM_PART + 1)
    body = "\n".join(json.dumps(row) for row in rows)
    headers = {"content-type": "application/x-ndjson"}
    answer = service.post("/sample?number=2&functions=true&seed=5", content=body, headers=headers)
    draws = [json.loads(line)["draws"] for line in answer.text.splitlines()]
    assert draws[0] == pytest.approx(draws[-1], rel=1e-12)
    answer = service.post("/sample?number=2&seed=5", content=body, headers=headers)
    draws = np.array([json.loads(line)["draws"] for line in answer.text.splitlines()])
    assert len(np.unique(draws)) == draws.size


def test_the_model_describes_itself(model, service):
    about = service.get("/model").json()
    assert [entry["name"] for entry in about["inputs"]] == NAMES
    assert [entry["label"] for entry in about["inputs"]] == ["load", "speed [km/h]"]
    assert about["inputs"][0]["low"] == model.cube_.low[0]
    assert about["sha256"] == "abc"
    assert about["outside"] == "flagged"
    assert service.get("/health").json()["status"] == "ok"


def test_openapi_lists_every_route_with_its_body(service):
    paths = service.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/predict", "/quantiles", "/sample", "/profile", "/target", "/model", "/health"}
    for path in ("/predict", "/quantiles", "/sample"):
        content = paths[path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", "application/x-ndjson"}
        assert "inputs" in content["application/json"]["schema"]["properties"]


def test_the_picture_is_made_of_predictions(model, service):
    at = ROWS[0]
    picture = service.post("/profile", json={"at": at}).json()
    assert picture["mean"] == pytest.approx(model.predict(frame([at]))[0], rel=1e-12)
    curve = picture["curves"][1]
    line = [[at[0], v] for v in curve["x"]]
    np.testing.assert_allclose(curve["mean"], model.predict(frame(line)), rtol=1e-6)
    np.testing.assert_allclose(
        np.stack([curve[name] for name in ("low", "low50", "high50", "high")], axis=1),
        model.predict_quantiles(frame(line), [0.05, 0.25, 0.75, 0.95]),
        rtol=1e-5,
        atol=1e-9,
    )
    y, density = np.array(picture["density"]["y"]), np.array(picture["density"]["density"])
    exact = np.exp(model.log_prob(frame([at] * len(y)), y))
    assert np.abs(density - exact).max() < 4e-3 * exact.max()  # measured: 1e-3


@pytest.mark.parametrize("of", [{"of": "mean"}, {"of": "quantile", "level": 0.9}])
def test_the_target_finder_reaches_what_can_be_reached(model, service, of):
    body = {"at": [0.5, 25.0], "goal": "reach", "value": 0.8, "locked": [NAMES[1]], **of}
    found = service.post("/target", json=body).json()
    assert found["reached"]
    assert found["at"][1] == 25.0
    there = frame([found["at"]])
    value = model.predict(there) if of["of"] == "mean" else model.predict_quantiles(there, 0.9)
    assert float(value[0]) == pytest.approx(0.8, abs=1e-6)
    # no nearer point on the line has the value: between the two the sign does not change
    steps = np.linspace(0.5, found["at"][0], 200)[:-2]
    between = frame([[v, 25.0] for v in steps])
    values = model.predict(between) if of["of"] == "mean" else model.predict_quantiles(between, 0.9)
    assert len(np.unique(np.sign(values - 0.8))) == 1


def test_the_target_finder_says_what_cannot_be_reached(model, service):
    found = service.post("/target", json={"at": [0.5, 25.0], "value": 99.0}).json()
    assert not found["reached"]
    best = service.post("/target", json={"at": [0.5, 25.0], "goal": "maximise"}).json()
    assert found["value"] == pytest.approx(best["value"], rel=1e-6)
    x = np.random.default_rng(2).uniform(size=(2000, 2)) * (model.cube_.high - model.cube_.low)
    assert best["value"] >= model.predict(frame(x + model.cube_.low)).max()


# -- refusals ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": []}, "at least one row"),
        ({"inputs": [[1.0]]}, "row 0: 1 numbers, expected 2"),
        ({"inputs": [{"load": 1.0}]}, "no input 'speed [km/h]'"),
        ({"inputs": [{"load": 1.0, NAMES[1]: 2.0, "x": 3}]}, "called 'x'"),
        ({"inputs": [["1", 2.0]]}, "input 'load': expected a number"),
        ({"inputs": [[True, 2.0]]}, "input 'load': expected a number"),
        ({"inputs": [[None, 2.0]]}, "expected a number"),
        ({"inputs": [[0.5, 1e5]]}, "far outside the fitted range"),
        ({"inputs": ROWS, "coverage": 1.0}, "coverage: "),
        ({"inputs": ROWS, "coverage": "0.9"}, "coverage: "),
        ({"inputs": ROWS, "path": "/etc/passwd"}, "path: Extra inputs are not permitted"),
        ({}, "inputs: Field required"),
        ([], "the body: "),
    ],
)
def test_what_cannot_be_answered_is_422_and_says_why(service, body, words):
    answer = service.post("/predict", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]["message"]


def test_declared_bounds_are_a_refusal():
    with client(small_model(bounds=[[0, 1], [0, 50]])) as strict:
        answer = strict.post("/predict", json={"inputs": [[0.5, 10], [0.5, 50.1]]})
        assert answer.status_code == 422
        assert "row 1, input 'speed [km/h]': 50.1 lies outside the bounds [0, 50]" in answer.text
        assert strict.get("/model").json()["outside"] == "refused"


def test_limits_of_size(model):
    with client(model, rows=5, stream_rows=8, values=60, body_bytes=2000, stream_bytes=3000) as small:
        assert small.post("/predict", json={"inputs": ROWS[:1] * 5}).status_code == 200
        assert small.post("/predict", json={"inputs": ROWS[:1] * 6}).status_code == 422
        assert small.post("/sample", json={"inputs": ROWS, "number": 21}).status_code == 422
        assert small.post("/predict", content=b" " * 2001, headers=JSON).status_code == 413
        assert small.post("/predict", content=b" " * 3001, headers=JSON).status_code == 413
        chunks = (b"[0.5, 10.0]\n" for _ in range(400))  # without an announced length
        assert small.post("/predict", content=chunks, headers=LINES).status_code == 413
        assert small.post("/predict", content=b"[0.5, 10.0]\n" * 9, headers=LINES).status_code == 422


JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
        ({**JSON, "content-encoding": "gzip"}, 415),
        ({**JSON, "host": "evil.example"}, 421),
        ({**JSON, "host": "127.0.0.1:8000"}, 200),
        ({**JSON, "host": "[::1]:8000"}, 200),
    ],
)
def test_headers(service, headers, status):
    body = json.dumps({"inputs": ROWS}).encode()
    assert service.post("/predict", content=body, headers=headers).status_code == status


def test_a_token_is_asked_for(model):
    with client(model, token=TOKEN, host="0.0.0.0") as closed:
        assert closed.get("/model").status_code == 401
        assert closed.get("/openapi.json").status_code == 401
        for given in ("Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"):
            assert closed.get("/model", headers={"authorization": given}).status_code == 401
        assert closed.get("/model", headers={"authorization": b"Bearer \xff\xfe"}).status_code == 401
        assert closed.get("/model", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert closed.get("/").status_code == 200  # the page, which holds nothing of the model
        assert "speed" not in closed.get("/").text
        assert closed.get("/health").status_code == 200


def test_what_a_policy_refuses():
    for wrong in (
        {"host": "0.0.0.0"},
        {"host": "example.org"},
        {"token": "short"},
        {"rows": 0},
        {"port": 70000},
    ):
        with pytest.raises(InputError):
            Policy(**wrong)
    assert TOKEN not in repr(Policy(token=TOKEN))
    assert [host_name(h) for h in (b"a.b:80", b"[::1]:80", b"", b"A")] == ["a.b", "::1", "", "a"]


class Slow:
    """A model that waits until it is let go."""

    def __init__(self, model):
        self.inner, self.cube_, self.gate = model, model.cube_, threading.Event()
        self.gate.set()
        self.calls = 0

    def predict(self, X, return_std=False):
        self.calls += 1
        self.gate.wait(20)
        return self.inner.predict(X, return_std=return_std)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_too_many_at_a_time_and_too_slow():
    slow = Slow(ServedModel.of(small_model()).model)
    with client(slow, concurrency=1, waiting=1, seconds=1.5) as service:
        slow.gate.clear()
        answers = []

        def ask():
            answers.append(service.post("/predict", json={"inputs": ROWS}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join()
        # one was computed too long, one waited too long, and for the third there was no place
        assert sorted(answers) == [429, 503, 503]
        assert service.get("/health").json()["running"] == 1  # its thread still waits
        slow.gate.set()
        for _ in range(100):
            if service.get("/health").json()["running"] == 0:
                break
            time.sleep(0.05)
        assert service.post("/predict", json={"inputs": ROWS}).status_code == 200


def test_a_computation_that_nobody_waits_for_stops_between_parts():
    slow = Slow(ServedModel.of(small_model()).model)
    with client(slow, seconds=0.5) as service:
        slow.gate.clear()
        before = slow.calls
        assert service.post("/predict", json={"inputs": ROWS[:1] * 5000}).status_code == 503
        slow.gate.set()
        for _ in range(100):
            if service.get("/health").json()["running"] == 0:
                break
            time.sleep(0.05)
        assert slow.calls == before + 1  # of ten parts


def test_a_stream_that_breaks_off_says_so():
    slow = Slow(ServedModel.of(small_model()).model)
    with client(slow, seconds=0.5) as service:
        slow.gate.clear()
        answer = service.post("/predict", content=b"[0.5, 10.0]\n" * 3, headers=LINES)
        slow.gate.set()
        assert answer.status_code == 200
        last = json.loads(answer.text.splitlines()[-1])
        assert last["row"] == 0
        assert last["error"]["code"] == "too_slow"


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "Categorical",
        pytest.param("Bernoulli", marks=pytest.mark.slow),
        pytest.param("Poisson", marks=pytest.mark.slow),
    ],
)
def test_deep_models_of_any_outputs(kind, tmp_path):
    """No route answers 500, whatever the likelihood; masses of discrete laws sum to one."""
    pytest.importorskip("torch")
    from dtmgp import DTMGPRegressor, likelihoods

    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2))
    y = np.floor(3 * x[:, 0]) if kind else x[:, 0] + 0.1 * rng.normal(size=60)
    if kind == "Bernoulli":
        y = np.minimum(y, 1.0)
    likelihood = getattr(likelihoods, kind)(*[3] * (kind == "Categorical")) if kind else None
    model = DTMGPRegressor(likelihood=likelihood, max_epochs=2).fit(x, y)
    model.save(tmp_path / "m.dtmgp")
    with client(load_model(tmp_path / "m.dtmgp"), raising=False) as service:
        for path in ("/predict", "/quantiles", "/sample"):
            assert service.post(path, json={"inputs": [[0.5, 0.5]]}).status_code == 200
        for output in range(3):
            answer = service.post("/profile", json={"at": [0.5, 0.5], "output": output})
            known = len(service.get("/model").json()["outputs"])
            assert answer.status_code == (200 if output < known else 422)
            if answer.status_code == 200 and kind:
                assert sum(answer.json()["density"]["mass"]) == pytest.approx(1.0, abs=1e-3)
        for of in ("mean", "quantile", "exceedance"):
            for goal in ("reach", "minimise"):
                body = {"at": [0.5, 0.5], "goal": goal, "of": of, "value": 0.5}
                assert service.post("/target", json=body).status_code in (200, 422)


def test_any_saved_model_can_be_served(tmp_path, model):
    model.save(tmp_path / "m.dtmgp")
    with client(load_model(tmp_path / "m.dtmgp")) as again:
        assert again.post("/predict", json={"inputs": ROWS}).status_code == 200
