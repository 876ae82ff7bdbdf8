"""Model files: safetensors with a JSON description and a SHA-256 over all of it. Nothing is executed on reading.

A file is accepted only if every byte of it is accounted for: the header is strict JSON without repeated keys, tensors
follow one another without gaps or overlaps to the end of the file, and the digest matches. Writing goes to a temporary
file in the same folder, which then replaces the target.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from dtmgp.errors import InputError

FORMAT, SCHEMA = "dtmgp-model", 1
DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
MOST_HEADER_BYTES = 1 << 24

Arrays = dict[str, np.ndarray]


def digest(kind: str, config: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over kind, description, and name, type, shape and bytes of every array."""
    total = hashlib.sha256(json.dumps([FORMAT, SCHEMA, kind, config]).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        total.update(array.tobytes())
    return total.hexdigest()


def write_model(path: str | os.PathLike[str], kind: str, config: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one model; a reader sees the old file or the whole new one."""
    target = Path(path)
    text = json.dumps(config, allow_nan=False, sort_keys=True)
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    meta = {
        "format": FORMAT,
        "schema": str(SCHEMA),
        "kind": kind,
        "config": text,
        "sha256": digest(kind, text, stored),
    }
    content = save(stored, metadata=meta)
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise _cannot("write", target, error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise _cannot("write", target, error) from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_model(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read a model of the given kind, or refuse the file with a message."""
    source = Path(path)
    try:
        content = source.read_bytes()
    except OSError as error:
        raise _cannot("read", source, error) from None
    try:
        meta, arrays = _parse(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refused(source, str(error) or type(error).__name__) from None
    if meta.get("format") != FORMAT:
        raise _refused(source, "a safetensors file of another program")
    if meta.get("schema") != str(SCHEMA):
        raise InputError(
            f"model file {source}",
            got=f"schema version {meta.get('schema')!r}",
            expected=f"version {SCHEMA}",
            do="read it with the release that wrote it, and save again",
        )
    if meta.get("kind") != kind:
        raise InputError(
            f"model file {source}",
            got=f"a {meta.get('kind')}",
            expected=f"a {kind}",
            do=f"use {meta.get('kind')}.load",
        )
    text = meta.get("config", "")
    if digest(kind, text, arrays) != meta.get("sha256"):
        raise _refused(source, "content that does not match its checksum")
    config: dict[str, Any] = json.loads(text, object_pairs_hook=_unique)
    return config, arrays


def _parse(content: bytes) -> tuple[dict[str, str], Arrays]:
    if len(content) < 8:
        raise ValueError(f"{len(content)} bytes")
    size = int.from_bytes(content[:8], "little")
    if size > min(MOST_HEADER_BYTES, len(content) - 8):
        raise ValueError(f"a header of {size} bytes in a file of {len(content)}")
    header = json.loads(content[8 : 8 + size].decode("utf-8"), object_pairs_hook=_unique)
    if not isinstance(header, dict):
        raise ValueError("a header that is no JSON object")
    meta = header.pop("__metadata__", {})
    if not isinstance(meta, dict) or not all(isinstance(value, str) for value in meta.values()):
        raise ValueError("metadata that are not texts")
    body = memoryview(content)[8 + size :]
    arrays: Arrays = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (start, stop) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not all(isinstance(n, int) and n >= 0 for n in [*shape, start, stop]):
            raise ValueError(f"tensor {name!r} with a bad shape or offset")
        if start != end or stop - start != math.prod(shape) * np.dtype(dtype).itemsize or stop > len(body):
            raise ValueError(f"tensor {name!r} at bytes {start} to {stop}")
        arrays[name] = np.frombuffer(body[start:stop], dtype=dtype).reshape(shape).copy()
        end = stop
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes that belong to no tensor")
    return meta, arrays


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a header with a repeated key")
    return found


def _refused(path: Path, what: str) -> InputError:
    return InputError(
        f"model file {path}",
        got=what,
        expected="a complete file written by save()",
        cause="a damaged or truncated copy, or another kind of file",
        do="copy it again, or save the model again",
    )


def _cannot(action: str, path: Path, error: OSError) -> InputError:
    return InputError(f"model file {path}", got=error.strerror or str(error), expected=f"a path to {action}")
