"""Plays one gwcase/1 case (FORMAT.md) through an adapter."""

import asyncio, copy, importlib, json, os, re, secrets, shutil, signal, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from assertion import Fail, MISSING, check, deq, get
from idp import Idp
from up import J, Up
from web import SSE, hreq


class Client:
    def __init__(self, name, spec):
        self.name = name
        self.spec = spec
        self.era = spec.get("era", "legacy")
        self.sid = None
        self.ver = None
        self.n = 0
        self.inbox = []
        self.ready = False
        self.lock = asyncio.Lock()


class Run:
    def __init__(self, case, ad):
        self.c = case
        self.ad = ad
        self.vars = {}
        self.bg = {}
        self.ls = {}
        self.toks = {}
        self.pids = set()
        self.cl = {}

    async def setup(self):
        c = self.c
        self.ups = {}
        self.ctl = await asyncio.start_server(self.ctl_conn, "127.0.0.1", 0, limit=2**27)
        self.cport = self.ctl.sockets[0].getsockname()[1]
        for n, sp in c["upstreams"].items():
            self.ups[n] = Up(n, sp)
        for u in self.ups.values():
            if u.tr == "http":
                await u.http_start()
        for u in self.ups.values():
            if u.spec.get("redirect"):
                u.spec = self.res(u.spec)
        self.idp = None
        if "idp" in c:
            self.idp = Idp()
            await self.idp.start()
        for n, sp in dict({"c": {}}, **c.get("clients", {})).items():
            self.cl[n] = Client(n, sp)
        self.gwset = copy.deepcopy(c.get("gateway", {}))
        self.work = tempfile.mkdtemp(prefix="gwcase")
        self.mcp = self.ad.mcp_path
        self.gw = await self.ad.start(self.neutral(), self.work)

    def neutral(self):
        g = copy.deepcopy(self.gwset)
        gu = g.pop("upstreams", {})
        n = {"upstreams": {}}
        n.update(g)
        for k, u in self.ups.items():
            d = dict(gu.get(k, {}))
            d["transport"] = u.tr
            if u.tr == "stdio":
                d["command"] = [
                    sys.executable,
                    "-S",
                    "-E",
                    os.path.join(HERE, "fakeup.py"),
                    str(self.cport),
                    k,
                ] + u.spec.get("args", [])
                d["env"] = u.spec.get("env", {})
            else:
                d["url"] = "http://127.0.0.1:%d/mcp" % u.port
            n["upstreams"][k] = d
        if self.idp:
            n["issuer"] = self.idp.url
            n["jwks"] = self.idp.url + "/jwks"
        return n

    async def ctl_conn(self, r, w):
        try:
            h = json.loads(await r.readline())
            u = self.ups.get(h["hello"])
            if u:
                await u.stdio_client(h, r, w)
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass
        finally:
            w.close()

    async def teardown(self):
        for t in list(self.bg.values()) + list(self.ls.values()):
            t["t"].cancel()
        await self.ad.stop()
        for u in self.ups.values():
            if u.server:
                u.server.close()
            for p in u.pids + u.grand:
                try:
                    os.kill(p, signal.SIGKILL)
                except OSError:
                    pass
        self.ctl.close()
        if self.idp:
            self.idp.server.close()
        if not os.environ.get("GWRUN_KEEP"):
            shutil.rmtree(self.work, ignore_errors=True)

    # placeholders
    def ph(self, k):
        a, _, b = k.partition(":")
        if k == "gw":
            return self.gw
        if k == "mcp":
            return self.mcp
        if k == "idp":
            return self.idp.url
        if k == "rand":
            return secrets.token_hex(5)
        if a == "ns":
            u, _, t = b.partition(":")
            return self.ad.exposed(u, t)
        if a == "uri":
            u, _, t = b.partition(":")
            return self.ad.exposed_uri(u, t)
        if a == "var":
            return self.vars[b]
        if a == "up":
            return "http://127.0.0.1:%d/mcp" % self.ups[b].port
        if a == "token":
            if b not in self.toks:
                self.toks[b] = self.idp.token(
                    dict({"sub": b}, **self.res(self.c["idp"]["tokens"][b])), self.aud()
                )
            return self.toks[b]
        return "${" + k + "}"

    def aud(self):
        return self.res(self.gwset.get("auth", {}).get("audience", "${gw}${mcp}"))

    def res(self, o):
        if isinstance(o, str):
            m = re.fullmatch(r"\$\{(var:[^}]*)\}", o)
            if m:
                return self.ph(m[1])
            while True:
                n = re.sub(r"\$\{((?!env:)[^${}]*(?:\{[^}]*\}[^${}]*)?)\}", lambda m: str(self.ph(m[1])), o)
                if n == o:
                    return n
                o = n
        if isinstance(o, list):
            return [self.res(x) for x in o]
        if isinstance(o, dict):
            return {self.res(k): self.res(v) for k, v in o.items()}
        return o

    # http level
    def base(self, cl, accept=True):
        h = {}
        if "token" in cl.spec:
            h["authorization"] = "Bearer " + self.ph("token:" + cl.spec["token"])
        h.update(cl.spec.get("headers", {}))
        if cl.sid:
            h["mcp-session-id"] = cl.sid
        if cl.ver:
            h["mcp-protocol-version"] = cl.ver
        return h

    async def send(self, cl, method, path, headers, body, want=None, hold=None):
        t0 = time.monotonic()
        d = {
            "status": None,
            "headers": {},
            "header_count": {},
            "body": None,
            "raw": "",
            "messages": [],
            "events": 0,
            "ms": 0,
            "first_ms": None,
            "closed": False,
        }
        ms = lambda: int((time.monotonic() - t0) * 1000)
        try:
            R = await hreq(method, self.gw + path, headers, body)
            if hold is not None:
                hold["w"] = R.w
            d["status"] = R.status
            d["headers"] = R.headers
            d["header_count"] = R.count
            raw = b""
            sse = "text/event-stream" in R.headers.get("content-type", "")
            P = SSE()
            async for b in R.it:
                raw += b
                if sse:
                    for t in P.feed(b):
                        m = json.loads(t)
                        d["messages"].append(m)
                        if d["first_ms"] is None:
                            d["first_ms"] = ms()
                        if "method" in m and "id" in m:
                            cl.inbox.append(m)
                        if "method" not in m and (want is None or deq(m.get("id"), want)):
                            d["body"] = m
            d["raw"] = raw.decode("utf-8", "replace")
            d["events"] = P.n
            if not sse:
                try:
                    d["body"] = json.loads(raw)
                except ValueError:
                    pass
                if isinstance(d["body"], dict) and "jsonrpc" in d["body"]:
                    d["messages"].append(d["body"])
                d["first_ms"] = ms()
        except (ConnectionError, asyncio.IncompleteReadError, OSError) as e:
            d["closed"] = True
            d["raw"] = d["raw"] or "connection: %s" % e
        d["ms"] = ms()
        return d

    async def init(self, cl, raw=None):
        p = raw or {
            "protocolVersion": cl.spec.get("version", "2025-11-25"),
            "capabilities": cl.spec.get("capabilities", {}),
            "clientInfo": {"name": "gwrun-" + cl.name, "version": "1"},
        }
        cl.sid = cl.ver = None
        cl.n += 1
        h = dict(
            self.base(cl),
            **{
                "content-type": "application/json",
                "accept": cl.spec.get("accept", "application/json, text/event-stream"),
            },
        )
        d = await self.send(
            cl,
            "POST",
            self.mcp,
            h,
            J({"jsonrpc": "2.0", "id": "init-%d" % cl.n, "method": "initialize", "params": p}).encode(),
            "init-%d" % cl.n,
        )
        if d["body"] and "result" in d["body"]:
            cl.sid = d["headers"].get("mcp-session-id")
            cl.ver = d["body"]["result"].get("protocolVersion")
            await self.post(cl, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        cl.ready = True
        return d

    async def post(self, cl, m, extra=None, hold=None):
        h = dict(
            self.base(cl),
            **{
                "content-type": "application/json",
                "accept": cl.spec.get("accept", "application/json, text/event-stream"),
            },
        )
        if cl.era == "modern":
            p = m.setdefault("params", {})
            p["_meta"] = dict(
                {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "gwrun", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": cl.spec.get("capabilities", {}),
                },
                **p.get("_meta", {}),
            )
            h["mcp-protocol-version"] = "2026-07-28"
            h["mcp-method"] = m["method"]
            nm = p.get("name") or p.get("uri")
            if nm:
                h["mcp-name"] = nm
        h.update(extra or {})
        return await self.send(
            cl, "POST", self.mcp, h, J(m).encode(), m.get("id") if "method" in m else None, hold
        )

    # steps
    async def step(self, st, hold=None):
        cl = self.cl.setdefault(st.get("client", "c"), Client(st.get("client", "c"), {}))
        act = [k for k in st if k not in ("client", "expect", "save", "note")][0]
        a = st[act]
        if act not in ("start", "parallel", "repeat"):
            a = self.res(a)
        d = await getattr(self, "do_" + act)(cl, a, hold)
        for k, p in st.get("save", {}).items():
            v = get(d, self.res(p))
            if v is MISSING:
                raise Fail(f"{act}: save {k}: {self.res(p)} missing in {J(d)[:400]}")
            self.vars[k] = v
        for x in st.get("expect", []):
            e = check(self.res(x), d)
            if e:
                raise Fail(
                    f"{act} {J(a)[:160]}: {e}"
                    + (
                        f" | status {d.get('status')} raw {d['raw'][:300]!r}"
                        if isinstance(d, dict) and "raw" in d
                        else ""
                    )
                )
        return d

    async def do_init(self, cl, a, h):
        return await self.init(cl, a.get("raw"))

    async def ensure(self, cl):
        async with cl.lock:
            if cl.era == "legacy" and not cl.ready:
                await self.init(cl)

    async def do_rpc(self, cl, a, h):
        await self.ensure(cl)
        cl.n += 1
        m = {
            "jsonrpc": "2.0",
            "id": a["id"] if "id" in a else cl.n + 1000,
            "method": a["method"],
            "params": dict(a.get("params", {})),
        }
        if "meta" in a:
            m["params"]["_meta"] = a["meta"]
        return await self.post(cl, m, a.get("headers"), h)

    async def do_notify(self, cl, a, h):
        await self.ensure(cl)
        return await self.post(cl, {"jsonrpc": "2.0", "method": a["method"], "params": a.get("params", {})})

    async def do_http(self, cl, a, h):
        hd = dict(self.base(cl)) if a.get("session") else {}
        hd.update(a.get("headers", {}))
        b = J(a["json"]).encode() if "json" in a else a["body"].encode() if "body" in a else None
        want = a["json"].get("id") if isinstance(a.get("json"), dict) else None
        t = asyncio.ensure_future(self.send(cl, a["method"], a["path"], hd, b, want, h))
        if a["method"] == "GET" and "event-stream" in hd.get("accept", ""):
            hh = {}
            t.cancel()
            t = asyncio.ensure_future(self.send(cl, a["method"], a["path"], hd, b, want, hh))
            await asyncio.wait([t], timeout=2)
            if not t.done() and hh.get("w"):
                hh["w"].close()
        return await t

    async def do_list_all(self, cl, a, h):
        items = []
        cur = None
        n = 0
        ended = False
        while n < a["max_pages"]:
            d = await self.do_rpc(cl, {"method": a["method"], "params": {"cursor": cur} if cur else {}}, h)
            n += 1
            if not d["body"] or "result" not in d["body"]:
                raise Fail("%s: %s %s" % (a["method"], d["status"], d["raw"][:300]))
            items += d["body"]["result"].get(a["key"]) or []
            cur = d["body"]["result"].get("nextCursor")
            if not cur:
                ended = True
                break
        return {"items": items, "pages": n, "ended": ended}

    async def do_listen(self, cl, a, h):
        await self.ensure(cl)
        L = {"status": None, "headers": {}, "messages": [], "P": SSE(), "open": False, "ev": asyncio.Event()}

        async def go():
            try:
                R = await hreq("GET", self.gw + self.mcp, dict(self.base(cl), accept="text/event-stream"))
                L["status"] = R.status
                L["headers"] = R.headers
                L["open"] = R.status == 200
                async for b in R.it:
                    for t in L["P"].feed(b):
                        m = json.loads(t)
                        L["messages"].append(m)
                        if "method" in m and "id" in m:
                            cl.inbox.append(m)
                        L["ev"].set()
            except (ConnectionError, asyncio.IncompleteReadError, OSError, ValueError):
                pass
            finally:
                L["open"] = False

        L["t"] = asyncio.ensure_future(go())
        self.ls[a["as"]] = L
        await asyncio.sleep(0.15)
        return {}

    async def do_heard(self, cl, a, h):
        L = self.ls[a["as"]]
        end = time.monotonic() + a["within_ms"] / 1000
        while time.monotonic() < end:
            if "until" in a and any(check(a["until"], m) is None for m in L["messages"]):
                break
            await asyncio.sleep(0.03)
        return {
            "status": L["status"],
            "headers": L["headers"],
            "messages": list(L["messages"]),
            "comments": L["P"].comments,
            "open": L["open"],
        }

    async def do_answer(self, cl, a, h):
        end = time.monotonic() + a["within_ms"] / 1000
        while time.monotonic() < end:
            for m in cl.inbox:
                if m["method"] == a["to"]:
                    cl.inbox.remove(m)
                    await self.post(cl, dict({"jsonrpc": "2.0", "id": m["id"]}, **a["with"]))
                    return {"request": m}
            await asyncio.sleep(0.03)
        raise Fail("no %s reached client %s" % (a["to"], cl.name))

    async def do_start(self, cl, a, h):
        hold = {}
        self.bg[a["as"]] = {"t": asyncio.ensure_future(self.step(a["step"], hold)), "hold": hold}
        await asyncio.sleep(0.02)
        return {}

    async def do_join(self, cl, a, h):
        t = self.bg[a["as"]]["t"]
        done, _ = await asyncio.wait([t], timeout=a["within_ms"] / 1000)
        if not done:
            return {"done": False}
        return dict(t.result(), done=True)

    async def do_drop(self, cl, a, h):
        w = self.bg[a["as"]]["hold"].get("w")
        if w:
            w.transport.abort()
        return {}

    async def do_parallel(self, cl, a, h):
        return {"all": await asyncio.gather(*[self.step(x) for x in a])}

    async def do_repeat(self, cl, a, h):
        d = {}
        for _ in range(a["times"]):
            for x in a["steps"]:
                d = await self.step(x)
        return d

    async def do_sleep(self, cl, a, h):
        await asyncio.sleep(a / 1000)
        return {}

    async def do_upstream(self, cl, a, h):
        u = self.ups[a["name"]]
        do = a["do"]
        if do == "emit":
            await u.emit(a["method"], a.get("params", {}), a.get("times", 1))
        elif do == "set":
            u.spec = dict(u.spec, **a["patch"])
        elif do == "expire":
            u.sessions.clear()
        elif do == "crash":
            await u.crash()
        elif do == "stop":
            u.server and u.server.close()
        elif do == "start":
            await u.http_start()
        return {}

    async def do_seen(self, cl, a, h):
        return json.loads(J(self.ups[a["name"]].doc()))

    async def do_process(self, cl, a, h):
        pid = self.ad.pid
        st = {}
        for p in os.listdir("/proc"):
            if p.isdigit():
                try:
                    x = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
                    st[int(p)] = (int(x[1]), x[0])
                except OSError:
                    pass
        alive = pid in st and st[pid][1] != "Z"
        kids = set()
        grow = True
        while grow:
            n = {p for p, (pp, _) in st.items() if (pp == pid and alive) or pp in kids} - kids
            grow = bool(n)
            kids |= n
        if alive:
            self.pids |= kids
        for u in self.ups.values():
            self.pids |= set(u.pids) | set(u.grand)
        live = [p for p in (kids | self.pids) if p in st and st[p][1] != "Z"]
        rss = fds = 0
        if alive:
            rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) // 1024
            fds = len(os.listdir(f"/proc/{pid}/fd"))
        return {
            "alive": alive,
            "exit_code": self.ad.exit_code(),
            "rss_mb": rss,
            "descendants": live,
            "zombies": len([p for p in kids if st[p][1] == "Z"]),
            "fds": fds,
        }

    async def do_gateway(self, cl, a, h):
        t0 = time.monotonic()
        ms = lambda: int((time.monotonic() - t0) * 1000)
        if a["do"] == "reload":
            p = a.get("patch", {})
            gone = set()
            for n, sp in p.get("upstreams", {}).items():
                if sp is None:
                    gone.add(n)
                elif n in self.ups:
                    self.ups[n].spec = dict(self.ups[n].spec, **sp)
                else:
                    self.ups[n] = Up(n, sp)
                    if self.ups[n].tr == "http":
                        await self.ups[n].http_start()
            self.gwset.update({k: v for k, v in p.items() if k != "upstreams"})
            n = self.neutral()
            for g in gone:
                n["upstreams"].pop(g)
            await self.ad.reload(n)
            await asyncio.sleep(0.3)
        elif a["do"] == "term":
            try:
                os.kill(self.ad.pid, signal.SIGTERM)
            except OSError:
                pass
            while ms() < a["within_ms"] and self.ad.exit_code() is None:
                await asyncio.sleep(0.03)
        elif a["do"] == "ready":
            while ms() < a["within_ms"]:
                try:
                    (await hreq("GET", self.gw + "/", {})).w.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
            return {
                "ms": int((time.monotonic() - self.ad.t0) * 1000),
                "exited": self.ad.exit_code() is not None,
                "exit_code": self.ad.exit_code(),
            }
        return {"ms": ms(), "exited": self.ad.exit_code() is not None, "exit_code": self.ad.exit_code()}

    async def do_idp(self, cl, a, h):
        if a["do"] == "rotate":
            self.idp.rotate()
        elif a["do"] in ("up", "down"):
            self.idp.up = a["do"] == "up"
        return {"jwks_fetches": self.idp.fetches}

    async def do_logs(self, cl, a, h):
        return {"text": self.ad.log_text(), "audit": self.ad.audit_records()}

    async def do_metrics(self, cl, a, h):
        t = await self.ad.metrics_text()
        return {"text": t, "series": len([l for l in t.splitlines() if l.strip() and not l.startswith("#")])}

    async def do_openapi(self, cl, a, h):
        return await self.send(cl, "GET", self.ad.openapi_path, self.base(cl), None)

    async def do_rest_call(self, cl, a, h):
        m, p, b = self.ad.rest_call_request(a["upstream"], a["tool"], a["args"])
        return await self.send(
            cl,
            m,
            p,
            dict(self.base(cl), **{"content-type": "application/json", "accept": "application/json"}),
            J(b).encode(),
        )

    async def do_approve(self, cl, a, h):
        await self.ad.approve(a["decision"], a["tool"])
        return {}

    async def run(self):
        await self.setup()
        for i, st in enumerate(self.c["steps"]):
            try:
                await self.step(st)
            except Fail as e:
                raise Fail(f"step {i}: {e}")


async def one(case, adname):
    mod = importlib.import_module(adname)
    need = set(case["requires"]) - mod.features
    if case["id"] in getattr(mod, "waive", set()):
        return "waived", ""
    if need:
        return "skip", "needs " + ",".join(sorted(need))
    r = Run(case, mod.Adapter())
    try:
        await asyncio.wait_for(r.run(), case["timeout_s"])
        return "pass", ""
    except asyncio.TimeoutError:
        return "FAIL", "case timeout"
    except Fail as e:
        return "FAIL", str(e)
    except Exception as e:
        import traceback

        return "ERROR", "".join(traceback.format_exception(e)[-3:])
    finally:
        await r.teardown()
