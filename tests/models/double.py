"""A double of a server with the embeddings route of OpenAI, on loopback. It is no such server: it answers by rule."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from keeps.models.fake import FakeEmbedder


class Double:
    """Answers `POST /v1/embeddings` with the vectors of the fake embedder; `status`, `body` and `more`, headers,
    replace the answer."""

    def __init__(self, dims: int = 48) -> None:
        self.status = 200
        self.body: Any = None
        self.more: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self.asked: list[dict[str, Any]] = []
        self._fake = FakeEmbedder(dims)
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                status, body = double.answer(self.path, json.loads(self.rfile.read(size)), self.said())
                sent = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                for name, value in double.more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                with suppress(OSError):  # whoever asked may have read enough
                    self.wfile.write(sent)

            def said(self) -> dict[str, str]:
                return {name.lower(): value for name, value in self.headers.items()}

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Double:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Where the interface begins."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, path: str, asked: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        """Status and body for one request."""
        self.asked.append(asked)
        self.headers.append(headers)
        if path != "/v1/embeddings":
            return 404, {"error": {"message": "no such route"}}
        if self.status != 200 or self.body is not None:
            return self.status, self.body
        if not asked["input"] or any(not text for text in asked["input"]):
            return 400, {"error": {"message": "'$.input' is invalid."}}
        rows = asyncio.run(self._fake.embed(asked["input"]))
        data = [
            {"object": "embedding", "index": place, "embedding": _written(row, asked.get("encoding_format"))}
            for place, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {"object": "list", "data": data, "model": asked["model"], "usage": usage}


def _written(row: np.ndarray[Any, np.dtype[np.float32]], form: str | None) -> str | list[float]:
    """A vector as the interface writes it: numbers, or their bytes."""
    return base64.b64encode(row.tobytes()).decode() if form == "base64" else row.tolist()
