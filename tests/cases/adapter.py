"""Sets Portcullis up as a gwcase/1 case says, and reads back what it did."""

import asyncio
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kit"))
from daemon import Daemon, literal
from fidelity import scheme, upstream_id

features = {
    *("stdio", "http-upstream", "modern", "auth", "filters", "audit", "metrics", "process", "logs"),
    *("prompts", "resources", "limits", "reverse", "egress", "rate-limit"),
}
waive = set()


def ids(names):
    """Upstream ids for the names of a case: what does not fit the rule is renamed, what fits keeps its name."""
    renamed = {}
    for name in sorted(names, key=lambda name: upstream_id(name) != name):
        renamed[name] = upstream_id(name, renamed.values())
    return renamed


def expandable(text):
    """Config text in which `${env:X}` stays a reference and any other dollar is plain."""
    return "".join(
        part if re.fullmatch(r"\$\{env:\w+\}", part) else literal(part)
        for part in re.split(r"(\$\{env:\w+\})", text)
    )


def milliseconds(value):
    return f"{value}ms"


def limit(neutral):
    """A limit of so many in so many seconds: all of them may come at once."""
    unit, seconds = {1: ("s", 1), 3600: ("h", 3600), 86400: ("day", 86400)}.get(neutral["per_s"], ("min", 60))
    count = max(1, neutral["limit"] * seconds // neutral["per_s"])
    return {
        "per": {"user": "principal"}[neutral["by"]],
        "method": neutral["method"],
        "rate": f"{count}/{unit}",
        "burst": neutral["limit"],
    }


def timeouts(neutral, upstream):
    call = upstream.get("timeout_ms", neutral.get("call_timeout_ms"))
    found = {"call": call, "start": upstream.get("start_timeout_ms")}
    return {name: milliseconds(value) for name, value in found.items() if value is not None}


class Adapter:
    mcp_path = "/mcp"
    openapi_path = "/api/v1/openapi.json"
    pid = t0 = daemon = None

    async def start(self, neutral, workdir):
        self.ids = ids(neutral["upstreams"])
        self.daemon = Daemon(workdir, {}, env=neutral.get("raw_env"))
        self.write(neutral)
        await asyncio.to_thread(self.daemon.start, settle=self.patience(neutral))
        self.pid, self.t0 = self.daemon.process.pid, self.daemon.started
        return self.daemon.url

    def patience(self, neutral):
        """Seconds that starting upstreams may take before the steps begin: a mute one never gets anywhere."""
        starts = [
            it["start_timeout_ms"] / 1000 for it in neutral["upstreams"].values() if "start_timeout_ms" in it
        ]
        return min([2, *starts])

    def write(self, neutral):
        upstreams = {self.ids[name]: self.upstream(neutral, it) for name, it in neutral["upstreams"].items()}
        # Cases ask the same again and again, as no agent should.
        tenant = {"extensions": ["*"], "runaway": "off", **self.identity(neutral)}
        if "rate_limits" in neutral:
            tenant["limits"] = [limit(it) for it in neutral["rate_limits"]]
        self.daemon.write(
            self.resolved(upstreams), self.resolved(self.settings(neutral)), self.resolved(tenant)
        )

    def identity(self, neutral):
        """Who may ask: whoever has a token of the fake issuer. Without one, everybody."""
        if "issuer" not in neutral:
            return {}
        asked = neutral.get("auth", {})
        issuer = {
            "issuer": neutral["issuer"],
            "jwks": neutral["jwks"],
            "scopes": asked.get("required_scopes", []),
        }
        if "audience" in asked:
            issuer["audience"] = asked["audience"]
        return {"identity": {"issuers": [issuer]}}

    def settings(self, neutral):
        found = {
            name: neutral[name]
            for name in ("allowed_hosts", "allowed_origins", "public_url")
            if name in neutral
        }
        if "session_idle_s" in neutral:
            found["session"] = {"idle": f"{neutral['session_idle_s']}s"}
        if "keepalive_s" in neutral:
            found["keepalive"] = f"{neutral['keepalive_s']}s"
        if "max_message_bytes" in neutral:
            found["limits"] = {"body": neutral["max_message_bytes"], "result": neutral["max_message_bytes"]}
        if "list_timeout_ms" in neutral:
            found["list_timeout"] = milliseconds(neutral["list_timeout_ms"])
        return found

    def upstream(self, neutral, it):
        found = self.server(it) if "url" in it else self.program(it)
        if "scope" in it:
            found["share"] = {"shared": "tenant", "session": "session"}[it["scope"]]
        filters = {name: it[name] for name in ("include", "includeRegex") if name in it}
        if filters:
            found["tools"] = {name: [literal(p) for p in patterns] for name, patterns in filters.items()}
        if timeouts(neutral, it):
            found["timeouts"] = timeouts(neutral, it)
        return found

    def program(self, it):
        program, *args = it["command"]
        return {
            "command": expandable(program),
            "args": [expandable(arg) for arg in args],
            "env": {name: expandable(value) for name, value in it.get("env", {}).items()},
        }

    def server(self, it):
        found = {"url": it["url"]}
        headers = {name: expandable(value) for name, value in it.get("headers", {}).items()}
        if headers:
            found["credential"] = {"headers": headers}
        return found

    def resolved(self, value):
        """`${gw}` and `${mcp}` filled in; literal dollars of upstreams are doubled by now."""
        if isinstance(value, dict):
            return {key: self.resolved(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolved(inner) for inner in value]
        if isinstance(value, str):
            return re.sub(
                r"\$?\$\{(gw|mcp)\}", lambda m: self.daemon.url if m[1] == "gw" else self.mcp_path, value
            )
        return value

    async def stop(self):
        if self.daemon:
            await asyncio.to_thread(self.daemon.stop)

    async def reload(self, neutral):
        raise NotImplementedError("this gateway does not reload yet")

    def exit_code(self):
        return self.daemon.process.poll()

    def exposed(self, upstream, name):
        return f"{self.ids[upstream]}__{name}"

    def exposed_uri(self, upstream, uri):
        return scheme(self.ids[upstream]) + uri

    def log_text(self):
        return "\n".join([self.daemon.log_text(), *self.daemon.audit_lines()])

    def audit_records(self):
        """One record an entry: the lines of one call share its entry id and complete each other."""
        entries = {}
        for number, line in enumerate(self.daemon.audit_lines()):
            record = json.loads(line)
            entry = entries.setdefault(record.get("entry", f"line {number}"), {})
            entry.update({key: value for key, value in record.items() if value is not None and key != "time"})
            entry.setdefault("time", record.get("time"))
        return [{**entry, "user": entry.get("principal")} for entry in entries.values()]

    async def metrics_text(self):
        return await asyncio.to_thread(self.daemon.fetch, "/metrics")
