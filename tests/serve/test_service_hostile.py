"""Oracle: the statuses of the policy; whatever is sent, the service never answers 500 and goes on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_models import client, small_model

ROUTES = ["/predict", "/quantiles", "/sample", "/profile", "/target"]
JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
REFUSED = {400, 413, 415, 422}


@pytest.fixture(scope="module")
def service():
    with client(small_model(), raising=False, body_bytes=200_000, stream_bytes=200_000) as open_client:
        yield open_client


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**400), 10**400),
    st.sampled_from([0, 1, -1, 0.5, 25, 1e-320, 1e308, -1e308, 10**19]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = [
    "inputs",
    "coverage",
    "levels",
    "number",
    "seed",
    "functions",
    "at",
    "output",
    "goal",
    "of",
    "level",
    "threshold",
    "value",
    "locked",
]


@settings(max_examples=80)
@given(route=st.sampled_from(ROUTES), body=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
def test_any_json(service, route, body):
    answer = service.post(route, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code in REFUSED | {200}
    answer.json()


@settings(max_examples=60)
@given(
    route=st.sampled_from(ROUTES),
    rows=st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=1, max_size=3),
)
def test_any_numbers(service, route, rows):
    body = {"at": rows[0]} if route in ("/profile", "/target") else {"inputs": rows}
    answer = service.post(route, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code in REFUSED | {200}
    if answer.status_code == 200:
        json.loads(answer.text, parse_constant=lambda word: pytest.fail(word))


@settings(max_examples=50)
@given(route=st.sampled_from(ROUTES), body=st.binary(max_size=200), lines=st.booleans())
def test_any_bytes(service, route, body, lines):
    assert service.post(route, content=body, headers=LINES if lines else JSON).status_code in REFUSED


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"inputs":' * 20_000,
        b'{"inputs": [[NaN, 1]]}',
        b'{"inputs": [[1e999, 1]]}',
        b'{"inputs": [[-Infinity, 1]]}',
        b'{"inputs": [[' + b"9" * 5000 + b", 1]]}",
        b'{"at": [[1]], "inputs": 3}',
        b'{"inputs": [["\\ud800", 1]]}',
        b'{"\\u0000": 1}',
        b"\xff\xfe\x00",
        b"",
        b"null",
        b'"' + b"x" * 100_000 + b'"',
        b'{"at": {"load": 1, "speed [km/h]": 1e-400}, "value": 1e301}',
    ],
    ids=lambda body: body[:24].decode("latin-1").encode("unicode_escape").decode(),
)
def test_known_tricks(service, route, body):
    for headers in (JSON, LINES):
        assert service.post(route, content=body, headers=headers).status_code in REFUSED


@pytest.mark.parametrize(
    "query",
    [
        "coverage=nan",
        "coverage=inf",
        "coverage=",
        "coverage=0.5&coverage=0.9",
        "number=1e9",
        "number=99999999999999999999999999999999999999999999999",
        "levels=0.5,",
        "levels=" + "0.5," * 2000,
        "seed=-1",
        "functions=maybe",
        "x=%00%ff",
        "file=../../etc/passwd",
    ],
)
def test_hostile_queries(service, query):
    for route in ("/predict", "/quantiles", "/sample"):
        answer = service.post(f"{route}?{query}", content=b"[0.5, 10.0]\n", headers=LINES)
        assert answer.status_code in REFUSED | {200}


@pytest.mark.parametrize(
    "path",
    ["/../etc/passwd", "/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/", "/docs", "/%00", "/model/x"],
)
def test_no_file_is_named_by_a_client(service, path):
    assert service.get(path).status_code == 404


def test_other_methods(service):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "NONSENSE"):
        assert service.request(method, "/predict").status_code == 405


def test_it_goes_on_after_all_that(service):
    assert service.post("/predict", json={"inputs": [[0.5, 10.0]]}).status_code == 200
