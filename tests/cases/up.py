"""Fake upstream MCP servers (logic; lives in the runner)."""

import asyncio, base64, itertools, json, os, signal


def J(o):
    return json.dumps(o, ensure_ascii=False, separators=(",", ":"))


class Up:
    def __init__(self, name, spec):
        self.name = name
        self.spec = spec
        self.tr = spec.get("transport", "stdio")
        self.log = []
        self.calls = []
        self.starts = 0
        self.gets = 0
        self.hdrs = []
        self.env = {}
        self.args = []
        self.cancelled = []
        self.pids = []
        self.grand = []
        self.conns = set()
        self.sessions = {}
        self.n = itertools.count(1)
        self.server = None
        self.port = None
        self.sse = set()
        self.asks = {}
        self.flight = {}
        self.subs = {}

    def doc(self):
        return {
            "messages": self.log,
            "methods": [m.get("method") for m in self.log if "method" in m],
            "calls": self.calls,
            "starts": self.starts,
            "live": len([c for c in self.conns]),
            "gets": self.gets,
            "headers": self.hdrs,
            "env": self.env,
            "args": self.args,
            "cancelled": self.cancelled,
            "pids": self.pids,
        }

    # ---- protocol
    def page(self, key, items, p):
        ps = self.spec.get("page_size")
        if not ps:
            return {key: items}
        cur = p.get("cursor")
        i = 0
        if cur is not None:
            try:
                i = int(base64.b64decode(cur).decode().split(":")[1])
            except Exception:
                return None
        if self.spec.get("cursor_bug") == "repeat":
            return {key: items[:ps], "nextCursor": base64.b64encode(b"o:%d" % ps).decode()}
        r = {key: items[i : i + ps]}
        if i + ps < len(items):
            r["nextCursor"] = base64.b64encode(b"o:%d" % (i + ps)).decode()
        return r

    async def handle(self, m, conn, headers=None):
        """conn: has async send(text). Returns None; sends everything itself."""
        self.log.append(m)
        sp = self.spec
        mid = m.get("id")
        meth = m.get("method")
        if meth is None:
            f = self.asks.pop(m.get("id"), None)
            if f and not f.done():
                f.set_result(m)
            return
        if "id" not in m:
            if meth == "notifications/cancelled":
                rid = m.get("params", {}).get("requestId")
                ev = conn.flight.get(repr(rid)) or self.flight.get(repr(rid))
                if ev:
                    self.cancelled.append(ev[0])
                    ev[1].set()
                else:
                    self.cancelled.append("unknown:%r" % (rid,))
            return
        if sp.get("silent"):
            return
        oid = str(mid) if sp.get("id_as_string") else mid

        async def res(r):
            await conn.send(J({"jsonrpc": "2.0", "id": oid, "result": r}), True)

        async def err(c, t):
            await conn.send(J({"jsonrpc": "2.0", "id": oid, "error": {"code": c, "message": t}}), True)

        p = m.get("params") or {}
        if meth == "initialize":
            if self.tr == "http":
                self.starts += 1
            await asyncio.sleep(sp.get("startup_ms", 0) / 1000)
            caps = sp.get("capabilities")
            if caps is None:
                caps = {}
                if "tools" in sp:
                    caps["tools"] = {"listChanged": True}
                if "resources" in sp or "templates" in sp:
                    caps["resources"] = {"listChanged": True, "subscribe": True}
                if "prompts" in sp:
                    caps["prompts"] = {}
            r = {
                "protocolVersion": sp.get("protocolVersion") or p.get("protocolVersion", "2025-06-18"),
                "capabilities": caps,
                "serverInfo": {"name": "fake-" + self.name, "version": "1"},
            }
            if "instructions" in sp:
                r["instructions"] = sp["instructions"]
            await res(r)
            if sp.get("flood_bytes") and hasattr(conn, "ctl"):
                await conn.ctl({"flood": sp["flood_bytes"]})
            return
        if meth == "ping":
            return await res({})
        if meth in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
            await asyncio.sleep(sp.get("list_delay_ms", 0) / 1000)
            key = {
                "tools/list": "tools",
                "resources/list": "resources",
                "prompts/list": "prompts",
                "resources/templates/list": "resourceTemplates",
            }[meth]
            items = sp.get({"resourceTemplates": "templates"}.get(key, key))
            if items is None:
                return await err(-32601, "Method not found")
            tb = sp.get("tools_by_header")
            if tb and key == "tools" and headers is not None:
                items = tb["tools"].get(headers.get(tb["name"], ""), [])
            r = self.page(key, items, p)
            return await (res(r) if r is not None else err(-32602, "bad cursor"))
        if meth == "resources/read":
            c = sp.get("contents", {}).get(p.get("uri"))
            return await (res({"contents": c}) if c is not None else err(-32002, "Resource not found"))
        if meth in ("resources/subscribe", "resources/unsubscribe"):
            who = self.subs.setdefault(p.get("uri"), set())
            k = self.peer(conn, headers)
            (who.add if meth.endswith("/subscribe") else who.discard)(k)
        if meth in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            return await res({})
        if meth == "prompts/get":
            return await res({"messages": [{"role": "user", "content": {"type": "text", "text": J(p)}}]})
        if meth != "tools/call":
            return await err(-32601, "Method not found")
        tool = p.get("name")
        self.calls.append({"tool": tool, "arguments": p.get("arguments"), "id": mid})
        if tool not in [t.get("name") for t in sp.get("tools", [])] + [
            t.get("name") for v in sp.get("tools_by_header", {}).get("tools", {}).values() for t in v
        ]:
            return await err(-32602, "Unknown tool")
        b = sp.get("on_call", {}).get(tool, {})
        tok = (p.get("_meta") or {}).get("progressToken")
        answer = None
        ev = asyncio.Event()
        conn.flight[repr(mid)] = (tool, ev)
        self.flight[repr(mid)] = (tool, ev)
        try:
            await asyncio.sleep(b.get("delay_ms", 0) / 1000)
            for i, n in enumerate(b.get("notify", [])):
                if tok is None and n["params"].get("progressToken") == "$token":
                    continue
                n = json.loads(J(n).replace('"$token"', J(tok)))
                n["jsonrpc"] = "2.0"
                if i or b.get("gap_ms"):
                    await asyncio.sleep(b.get("gap_ms", 0) / 1000)
                await conn.send(J(n), False)
            if "ask" in b:
                aid = "srv-%d" % next(self.n)
                f = asyncio.get_running_loop().create_future()
                self.asks[aid] = f
                await conn.send(J(dict(b["ask"], jsonrpc="2.0", id=aid)), False)
                a = await f
                answer = a.get("result", {"error": a.get("error")})
            if b.get("hold_ms"):
                try:
                    await asyncio.wait_for(ev.wait(), b["hold_ms"] / 1000)
                    return
                except asyncio.TimeoutError:
                    pass
            if "exit" in b:
                return await conn.die(b["exit"])
            if b.get("close"):
                return await conn.die(0)
            if "error" in b:
                return await conn.send(J({"jsonrpc": "2.0", "id": oid, "error": b["error"]}), True)
            if "raw_result" in b:
                return await conn.send(
                    '{"jsonrpc":"2.0","id":' + J(oid) + ',"result":' + b["raw_result"] + "}", True
                )
            if "result" in b:
                return await res(b["result"])
            if "pad_bytes" in b:
                return await res({"content": [{"type": "text", "text": "x" * b["pad_bytes"]}]})
            sc = {"upstream": self.name, "tool": tool, "params": p}
            if answer is not None:
                sc["answer"] = answer
            await res(
                {"content": [{"type": "text", "text": self.name + ":" + str(tool)}], "structuredContent": sc}
            )
        finally:
            conn.flight.pop(repr(mid), None)
            self.flight.pop(repr(mid), None)

    def peer(self, conn, headers=None):
        return (
            (headers or {}).get("mcp-session-id")
            or getattr(conn, "who", None)
            or getattr(conn, "sid", None)
            or (id(conn) if isinstance(conn, Stdio) else "http")
        )

    async def emit(self, method, params, times):
        # resources/updated goes to the sessions that subscribed, everything else to all
        t = J({"jsonrpc": "2.0", "method": method, "params": params})
        who = self.subs.get(params.get("uri"), set()) if method == "notifications/resources/updated" else None
        for _ in range(times):
            for c in list(self.conns) + list(self.sse):
                if who is not None and self.peer(c) not in who:
                    continue
                try:
                    await c.send(t, False)
                except Exception:
                    pass

    # ---- stdio
    async def stdio_client(self, hello, r, w):
        c = Stdio(self, r, w, hello["pid"])
        self.starts += 1
        self.pids.append(hello["pid"])
        self.env = hello["env"]
        self.args = hello["args"]
        if self.spec.get("die_at_start") is not None:
            await c.ctl({"stderr": self.name + ": cannot start", "exit": self.spec["die_at_start"]})
            return
        self.conns.add(c)
        try:
            if self.spec.get("grandchild"):
                await c.ctl({"grandchild": 1})
            if self.spec.get("noise"):
                await c.raw(("\n".join(self.spec["noise"]) + "\n").encode())
            await c.ctl({"go": 1})
            buf = b""
            while True:
                line = await r.readline()
                if not line:
                    break
                o = json.loads(line)
                if "grand" in o:
                    self.grand.append(o["grand"])
                if "in" in o:
                    buf += base64.b64decode(o["in"])
                    *ls, buf = buf.split(b"\n")
                    for l in ls:
                        if l.strip():
                            asyncio.ensure_future(self.safe(json.loads(l), c))
        except (ConnectionError, ValueError):
            pass
        finally:
            self.conns.discard(c)
            w.close()

    async def safe(self, m, c):
        try:
            await self.handle(m, c)
        except (ConnectionError, asyncio.CancelledError):
            pass

    async def crash(self):
        for c in list(self.conns):
            try:
                os.kill(c.pid, signal.SIGKILL)
            except OSError:
                pass

    # ---- http
    async def http_start(self):
        if self.spec.get("refuse"):
            import socket

            k = socket.socket()
            k.bind(("127.0.0.1", 0))
            self.port = k.getsockname()[1]
            k.close()
            return
        self.server = await asyncio.start_server(self.http_conn, "127.0.0.1", self.port or 0, limit=2**26)
        self.port = self.server.sockets[0].getsockname()[1]

    async def http_conn(self, r, w):
        try:
            while True:
                line = await r.readline()
                if not line:
                    break
                meth, path, _ = line.decode().split(" ", 2)
                h = {}
                while True:
                    l = await r.readline()
                    if l in (b"\r\n", b""):
                        break
                    k, v = l.decode("latin1").split(":", 1)
                    h[k.strip().lower()] = v.strip()
                body = b""
                if "content-length" in h:
                    body = await r.readexactly(int(h["content-length"]))
                elif h.get("transfer-encoding") == "chunked":
                    while True:
                        n = int((await r.readline()).split(b";")[0], 16)
                        d = await r.readexactly(n) if n else b""
                        await r.readline()
                        if not n:
                            break
                        body += d
                if not await self.http_one(meth, path, h, body, w):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ValueError, asyncio.CancelledError):
            pass
        finally:
            w.close()

    async def http_one(self, meth, path, h, body, w):
        self.hdrs.append(dict(h, **{":method": meth}))
        sp = self.spec

        async def plain(st, ct, b, extra=""):
            w.write(
                (
                    "HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n"
                    % (st, ct, len(b), extra)
                ).encode()
                + b
            )
            await w.drain()

        if meth == "POST" and sp.get("redirect"):
            await plain(307, "text/plain", b"", "location: %s\r\n" % sp["redirect"])
            return True
        nh = sp.get("need_header")
        if nh and h.get(nh["name"]) != nh["value"]:
            await plain(
                401, "application/json", J({"error": "bad credential " + h.get(nh["name"], "-")}).encode()
            )
            return True
        if meth == "GET":
            self.gets += 1
            if sp.get("get_status", 200) != 200:
                await plain(sp["get_status"], "text/plain", b"")
                return True
            c = Http(self, w, True, True)
            c.who = h.get("mcp-session-id") or "http"
            await c.head()
            self.sse.add(c)
            try:
                while not w.is_closing():
                    await asyncio.sleep(0.2)
            finally:
                self.sse.discard(c)
            return False
        if meth == "DELETE":
            self.sessions.pop(h.get("mcp-session-id"), None)
            await plain(200, "text/plain", b"")
            return True
        try:
            m = json.loads(body)
        except ValueError:
            await plain(400, "application/json", b"{}")
            return True
        sid = None
        if sp.get("session"):
            if m.get("method") == "initialize":
                sid = "up-%s-%d-%s" % (self.name, next(self.n), os.urandom(6).hex())
                self.sessions[sid] = 1
            elif h.get("mcp-session-id") not in self.sessions:
                await plain(
                    404,
                    "application/json",
                    J(
                        {
                            "jsonrpc": "2.0",
                            "id": m.get("id"),
                            "error": {"code": -32001, "message": "Session not found"},
                        }
                    ).encode(),
                )
                return True
        if "id" not in m or "method" not in m:
            await self.handle(m, Http(self, w, False, False), h)
            await plain(202, "text/plain", b"")
            return True
        b = sp.get("on_call", {}).get((m.get("params") or {}).get("name"), {})
        sse = sp.get("reply_as") == "sse" or "notify" in b or "ask" in b
        c = Http(self, w, sse, False, sid)
        c.prelude = [J(x) for x in sp.get("prelude", [])] if sse else []
        await self.handle(m, c, h)
        if sp.get("silent"):
            await asyncio.sleep(600)
        if c.dead:
            return False
        if sse:
            w.write(b"0\r\n\r\n")
            await w.drain()
        return True


class Stdio:
    def __init__(self, up, r, w, pid):
        self.up = up
        self.w = w
        self.pid = pid
        self.flight = {}
        self.lock = asyncio.Lock()

    async def ctl(self, o):
        self.w.write(J(o).encode() + b"\n")
        await self.w.drain()

    async def raw(self, b, chunk=None):
        o = {"w": base64.b64encode(b).decode()}
        if chunk:
            o["chunk"] = chunk
        async with self.lock:
            await self.ctl(o)

    async def send(self, t, final):
        pre = "" if not (self.up.spec.get("noise") and final) else "noise before answer\n"
        await self.raw((pre + t + "\n").encode(), self.up.spec.get("chunk"))

    async def die(self, code):
        await self.ctl({"exit": code})


class Http:
    def __init__(self, up, w, sse, stream, sid=None):
        self.up = up
        self.w = w
        self.sse = sse
        self.started = False
        self.flight = {}
        self.dead = False
        self.sid = sid
        self.prelude = []

    async def head(self):
        self.started = True
        ct = self.up.spec.get("ctype") or "text/event-stream"
        self.w.write(
            (
                "HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n%s\r\n"
                % (ct, "mcp-session-id: %s\r\n" % self.sid if self.sid else "")
            ).encode()
        )
        await self.w.drain()
        if self.prelude:
            await self.chunk(": hi\r\n\r\nid: 0\r\ndata:\r\n\r\n")

    async def chunk(self, t):
        b = t.encode()
        self.w.write(b"%x\r\n" % len(b) + b + b"\r\n")
        await self.w.drain()

    async def send(self, t, final):
        if self.sse:
            if not self.started:
                await self.head()
            if final:
                for x in self.prelude:
                    await self.chunk("event: message\r\ndata: %s\r\n\r\n" % x)
            await self.chunk("event: message\ndata: %s\n\n" % t)
        else:
            b = t.encode()
            self.w.write(
                (
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
                    % ("mcp-session-id: %s\r\n" % self.sid if self.sid else "", len(b))
                ).encode()
                + b
            )
            await self.w.drain()

    async def die(self, code):
        self.dead = True
        self.w.transport.abort()
