"""A small HTTP/1.1 client that shows what really came back, and an event-stream reader."""

import asyncio, re


class Resp:
    pass


async def hreq(method, url, headers, body=None, timeout=30):
    m = re.match(r"http://([^/:]+):(\d+)(.*)", url)
    r, w = await asyncio.open_connection(m[1], int(m[2]), limit=2**27)
    h = {"host": f"{m[1]}:{m[2]}", "connection": "close", "user-agent": "gwrun"}
    h.update({k.lower(): v for k, v in headers.items()})
    h = {k: v for k, v in h.items() if v != ""}
    if body is not None:
        h["content-length"] = str(len(body))
    w.write(
        (
            f'{method} {m[3] or "/"} HTTP/1.1\r\n' + "".join(f"{k}: {v}\r\n" for k, v in h.items()) + "\r\n"
        ).encode("latin1", "replace")
        + (body or b"")
    )
    await w.drain()
    R = Resp()
    R.w = w
    line = await r.readline()
    if not line:
        raise ConnectionError("closed before status")
    R.status = int(line.split()[1])
    R.headers = {}
    R.count = {}
    while True:
        l = await r.readline()
        if l in (b"\r\n", b"\n", b""):
            break
        k, v = l.decode("latin1").split(":", 1)
        k = k.strip().lower()
        R.count[k] = R.count.get(k, 0) + 1
        R.headers[k] = R.headers[k] + ", " + v.strip() if k in R.headers else v.strip()

    async def it():
        try:
            if method == "HEAD" or R.status in (204, 304):
                return
            if R.headers.get("transfer-encoding", "").lower() == "chunked":
                while True:
                    n = int((await r.readline()).split(b";")[0] or b"0", 16)
                    if n:
                        yield await r.readexactly(n)
                    await r.readline()
                    if not n:
                        return
            elif "content-length" in R.headers:
                left = int(R.headers["content-length"])
                while left > 0:
                    b = await r.read(min(left, 65536))
                    if not b:
                        return
                    left -= len(b)
                    yield b
            else:
                while True:
                    b = await r.read(65536)
                    if not b:
                        return
                    yield b
        finally:
            w.close()

    R.it = it()
    return R


class SSE:
    def __init__(self):
        self.b = b""
        self.data = []
        self.comments = 0
        self.n = 0

    def feed(self, b):
        out = []
        self.b += b.replace(b"\r\n", b"\n")
        *ls, self.b = self.b.split(b"\n")
        for l in ls:
            if l.startswith(b":"):
                self.comments += 1
            elif l.startswith(b"data:"):
                self.data.append(l[5:][1:] if l[5:6] == b" " else l[5:])
            elif l == b"" and self.data:
                t = b"\n".join(self.data).decode()
                self.data = []
                self.n += 1
                if t.strip():
                    out.append(t)
        return out
