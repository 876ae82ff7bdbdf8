"""Oracle: the policy; the real process behind `dtmgp serve`, its signals, its logs and its sockets."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from served_models import server, small_model

from dtmgp.cli import main

TOKEN = "a-token-of-more-than-16-letters"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "m.dtmgp"
    small_model().save(path)
    return path


def ask(address, path="/predict", body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    given = {"content-type": "application/json", **headers}
    try:
        connection.request("POST", path, json.dumps(body or {"inputs": [[0.5, 10.0]]}), given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_raw_sockets_logs_and_a_signal_that_lets_answers_finish(model_file):
    """Requests that no HTTP library would send are refused; then SIGTERM comes while an answer is under way."""
    with server(model_file, "--timeout", "4", "--max-body", "0.01") as (address, process):
        port = urlsplit(address).port
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        cases = {
            b"NONSENSE\r\n\r\n": b"400",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000 + b"\r\n\r\n": b"4",
            head + b"Content-Length: -1\r\n\r\n": b"400",
            head + b"Content-Length: 99999999999999999999\r\n\r\n": b"4",
            head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}": b"400",
            head + b"Content-Length: 20000\r\n\r\n": b"413",
            head + b"Content-Length: 50\r\n\r\n{": b"408",  # and then nothing
        }
        for request, status in cases.items():
            with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
                raw.sendall(request)
                answer = raw.recv(4096)
                assert answer.split(b" ", 2)[1].startswith(status), (request[:80], answer[:200])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(head + b"Content-Length: 50\r\n\r\n{")  # goes away in the middle
        assert ask(address)[0] == 200
        found = []
        body = {"inputs": [[0.5, 10.0]] * 10, "number": 50_000}
        thread = threading.Thread(target=lambda: found.append(ask(address, "/sample", body)[0]))
        thread.start()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        thread.join()
        out, logs = process.communicate(timeout=40)
        assert process.returncode == 0
        assert found == [200]
        assert "Traceback" not in logs, logs
        lines = [json.loads(line) for line in logs.splitlines()]
        assert lines[-1]["path"] == "/sample"
        assert lines[-1]["rows"] == 10
        assert {"time", "request", "client", "method", "status", "bytes", "ms", "compute_ms"} <= lines[
            -1
        ].keys()
        assert out.startswith("profiler: http://127.0.0.1:")


@pytest.mark.slow
def test_a_token_from_the_environment_is_asked_for_and_not_shown(model_file):
    with server(model_file, token=TOKEN) as (address, process):
        assert ask(address)[0] == 401
        assert ask(address, authorization=f"Bearer {TOKEN}")[0] == 200
        process.send_signal(signal.SIGINT)
        out, logs = process.communicate(timeout=40)
        assert process.returncode == 0
        assert TOKEN not in out + logs


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "expected a token"),
        (["--port", "{busy}"], "free port"),
        (["--outputs", "a,b"], "expected 1 different names"),
        (["--token-file", "/no/such/file"], "a text file with the token"),
    ],
)
def test_what_it_will_not_start_with_is_one_line(model_file, options, words, capsys):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        given = [word.replace("{busy}", str(busy.getsockname()[1])) for word in options]
        with pytest.raises(SystemExit) as stopped:
            main(["serve", str(model_file), *given])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) == 1
