"""A limit: uvicorn and an application that answers `/read` and `/get` with a fixed number of bytes each.

bare_http.py READ_BYTES GET_BYTES
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]]
    answers = {path: b"x" * size for path, size in zip(("/read", "/get"), sizes, strict=True)}
    headers = {
        path: [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        for path, answer in answers.items()
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        path = scope["path"]
        await send({"type": "http.response.start", "status": 200, "headers": headers[path]})
        await send({"type": "http.response.body", "body": answers[path]})

    uvicorn.run(app, host="127.0.0.1", port=0, access_log=False, lifespan="off")


if __name__ == "__main__":
    main()
