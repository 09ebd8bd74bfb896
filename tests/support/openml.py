"""A stand-in for OpenML on this machine, which answers what ``sklearn.datasets.fetch_openml`` asks."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from sklearn.datasets import _openml

ADDRESSES = ("_SEARCH_NAME", "_DATA_INFO", "_DATA_FEATURES", "_DATA_QUALITIES")
REAL = "https://www.openml.org"


@dataclass
class StubOpenML:
    """Tables by name, of one version; the last column of each is its target. ``asked`` collects paths of requests."""

    tables: Mapping[str, pd.DataFrame]
    version: int = 1
    address: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> bytes | None:
        """Return what there is at a path, or None."""
        self.asked.append(path)
        named = re.fullmatch(r".*/data_name/([^/]+)/limit/2/(.*)", path)
        if named:
            found = [number for number, name in enumerate(self.tables, 1) if name == named[1]]
            fitting = found if f"data_version/{self.version}" in named[2] or "status/active" in named[2] else []
            return _json({"data": {"dataset": [{"did": n, "status": "active"} for n in fitting]}}) if fitting else None
        numbered = re.fullmatch(r"/(?:api/v1/json/data|file)/(features/|qualities/)?(\d+)", path)
        if numbered is None or int(numbered[2]) > len(self.tables):
            return None
        kind, number = numbered[1] or path.split("/")[1], int(numbered[2])
        table = list(self.tables.values())[number - 1]
        if kind == "file":
            return _arff(table)
        return _json({"features/": _features, "qualities/": _qualities}.get(kind, self._description)(number, table))

    def _description(self, number: int, table: pd.DataFrame) -> Any:
        about = {
            "id": str(number),
            "name": list(self.tables)[number - 1],
            "version": str(self.version),
            "format": "ARFF",
        }
        about |= {
            "version": str(self.version),
            "description": "made up",
            "status": "active",
            "url": f"{self.address}/file/{number}",
            "file_id": str(number),
        }
        about |= {"default_target_attribute": str(table.columns[-1])}
        about["md5_checksum"] = hashlib.md5(_arff(table), usedforsecurity=False).hexdigest()
        return {"data_set_description": about}


@contextmanager
def stub_openml(tables: Mapping[str, pd.DataFrame], home: Path, version: int = 1) -> Iterator[StubOpenML]:
    """Let ``fetch_openml`` ask a server on this machine, and keep what it fetches in a folder of the test."""
    stub = StubOpenML(tables, version)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = stub.answer(self.path)
            self.send_response(200 if body is not None else 412)
            self.end_headers()
            self.wfile.write(body if body is not None else b'{"error": {"message": "none"}}')

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        with ExitStack() as stack:
            for name in ADDRESSES:
                stack.enter_context(patch.object(_openml, name, getattr(_openml, name).replace(REAL, stub.address)))
            stack.enter_context(patch.dict("os.environ", {"SCIKIT_LEARN_DATA": str(home)}))
            yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _features(number: int, table: pd.DataFrame) -> Any:
    kinds = ["numeric" if pd.api.types.is_numeric_dtype(table[name]) else "nominal" for name in table]
    return {
        "data_features": {
            "feature": [
                {"index": str(at), "name": str(name), "data_type": kind, "is_ignore": "false",
                 "is_row_identifier": "false", "is_target": str(at == len(kinds) - 1).lower(),
                 "number_of_missing_values": "0"}
                for at, (name, kind) in enumerate(zip(table, kinds, strict=True))
            ]
        }
    }  # fmt: skip


def _qualities(number: int, table: pd.DataFrame) -> Any:
    return {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(table))}]}}


def _arff(table: pd.DataFrame) -> bytes:
    """Return a table in OpenML's format."""
    lines = ["@RELATION stub"]
    for name in table:
        column = table[name]
        numeric = pd.api.types.is_numeric_dtype(column)
        values = "NUMERIC" if numeric else "{" + ",".join(sorted(set(column.astype(str)))) + "}"
        lines.append(f"@ATTRIBUTE {name} {values}")
    lines += ["@DATA", *(",".join(map(str, row)) for row in table.itertuples(index=False))]
    return "\n".join(lines).encode()
