"""What a request can do wrong, as exceptions with the status that the client gets."""

from __future__ import annotations


class Fault(Exception):
    """A refusal with a status, a short code for machines, and a message for people."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def content(self) -> dict[str, dict[str, str]]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


class Malformed(Fault):
    """No JSON, or another encoding."""

    status, code = 400, "malformed"


class Unauthorised(Fault):
    """No token or another one."""

    status, code = 401, "unauthorised"


class SlowUpload(Fault):
    """A body that takes too long to arrive."""

    status, code = 408, "slow_upload"


class TooLarge(Fault):
    """More bytes than allowed."""

    status, code = 413, "too_large"


class WrongType(Fault):
    """A content type that is not read."""

    status, code = 415, "wrong_type"


class ForeignHost(Fault):
    """A host name that is not this machine's: another web page that points its name here."""

    status, code = 421, "foreign_host"


class Unprocessable(Fault):
    """JSON that says nothing that the model can answer, or asks for too much."""

    status, code = 422, "unprocessable"


class Busy(Fault):
    """Too many requests at a time."""

    status, code = 429, "busy"


class Overrun(Fault):
    """A computation that takes too long, or a service that is about to stop."""

    status, code = 503, "too_slow"
