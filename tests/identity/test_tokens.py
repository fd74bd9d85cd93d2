#!/usr/bin/env python3
"""Whose tokens the gateway takes: of a real authorization server, and of one that rotates its keys, fails and comes back."""

import base64
import json
import shutil
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kit"), str(HERE.parent / "attacks")]
import provider
import upstream
from daemon import Daemon

SECRET = "r0bot-s3cret/+"
GATE = {"client_id": "gate", "client_secret": "g4te-s3cret"}
OPAQUE = "urn:opaque:gate"
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def setUpModule():
    import interpreter

    interpreter.with_cryptography()


def post(url, form, account=None):
    """What an endpoint of OAuth answers."""
    request = urllib.request.Request(url, urllib.parse.urlencode(form).encode())
    if account:
        pair = ":".join(urllib.parse.quote(part, safe="") for part in account)
        request.add_header("authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or "null")


class Stand(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="portcullis-tokens-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.journal = upstream.Journal(self.folder / "one.jsonl")

    def gateway(self, issuer, settings=None, more=None, start=True):
        tenant = {"identity": {"issuers": [issuer] if issuer else []}}
        one = {"url": upstream.serve(self.journal), "share": "tenant", **(more or {})}
        self.daemon = Daemon(self.folder, {"one": one}, settings, tenant)
        if start:
            self.daemon.start()
        self.addCleanup(self.daemon.stop)
        return self.daemon

    def ask(self, token, method="tools/list", name=None, path="/mcp", **params):
        """Status, headers and message of one request."""
        params = {**params, **({"name": name} if name else {}), "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "authorization": f"Bearer {token}",
            **({"mcp-name": name} if name else {}),
        }
        request = urllib.request.Request(self.daemon.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.headers, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.headers, json.loads(refused.read() or "null")

    def status(self, token, **more):
        return self.ask(token, **more)[0]

    def ready(self):
        try:
            self.daemon.fetch("/readyz")
        except urllib.error.HTTPError as error:
            error.close()
            return False
        return True

    def until(self, reached, seconds, what):
        end = time.monotonic() + seconds
        while not reached():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)


class OfARealServer(Stand):
    """oidc-provider."""

    def setUp(self):
        super().setUp()
        grants = {"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []}
        robot = {"client_id": "robot", "client_secret": SECRET, **grants}
        self.issuer = provider.start(self, "login.mjs", json.dumps([robot, {**GATE, **grants}]))

    def token(self, resource, scope="tools.read"):
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        return post(f"{self.issuer}/token", form, ("robot", SECRET))["access_token"]

    def test_its_keys_are_found_by_its_metadata(self):
        daemon = self.gateway({"issuer": self.issuer})
        self.until(self.ready, 10, "the keys are not found")
        self.assertEqual(self.status(self.token(daemon.url + "/mcp")), 200)
        self.assertEqual(self.status(self.token("https://other.example/mcp")), 401)

    def test_it_is_asked_about_tokens_that_say_nothing(self):
        asked = {"client_id": GATE["client_id"], "client_secret": GATE["client_secret"], "cache": "0s"}
        issuer = {"issuer": self.issuer, "introspection": asked, "audience": OPAQUE}
        self.gateway({**issuer, "claims": {"principal": "client_id"}, "required_scopes": ["tools.read"]})
        token = self.token(OPAQUE)
        self.assertNotIn(".", token)
        self.assertEqual(self.status(token), 200)
        self.assertEqual(self.status(self.token("urn:opaque:another")), 401)
        self.assertEqual(self.status(token[:-1] + ("a" if token[-1] != "a" else "b")), 401)
        weak = self.token(OPAQUE, "tools.write")
        self.assertEqual(self.status(weak), 403)
        post(f"{self.issuer}/token/revocation", {"token": token}, ("robot", SECRET))
        self.assertEqual(self.status(token), 401)
        said = "\n".join([self.daemon.log_text(), *self.daemon.audit_lines(), self.daemon.fetch("/status")])
        for secret in (token, weak, GATE["client_secret"]):
            self.assertNotIn(secret, said)
        self.assertIn('"principal":"robot"', "".join(self.daemon.audit_lines()))


class OfOurOwn(Stand):
    """An issuer that does what it is told."""

    def setUp(self):
        super().setUp()
        import issuer
        import tokens

        self.keys = tokens.Keys()
        self.idp = self.enterContext(issuer.Provider(self.keys))
        self.maker = tokens.Issuer(self.keys, self.idp.url, "api://gate", "api://other")

    def token(self, key="rsa1", **claims):
        return self.maker.token({"sign": {"alg": "RS256", "key": key}, "payload": claims})

    def issuer(self, **more):
        return {"issuer": self.idp.url, "audience": "api://gate", **more}

    def test_a_new_key_counts_at_once_and_strange_ones_cost_one_reading(self):
        self.gateway(self.issuer())
        self.until(self.ready, 10, "the keys are not found")
        self.assertEqual(self.status(self.token()), 200)
        self.idp.state, read = "with:rsa_new", self.idp.fetched
        began = time.monotonic()
        self.assertEqual(self.status(self.token("rsa_new")), 200)
        self.assertLess(time.monotonic() - began, 1)
        for _ in range(50):
            self.assertEqual(self.status(self.token("rsa_att")), 401)
        self.assertEqual(self.idp.fetched - read, 1)
        self.assertEqual(self.status(self.token()), 200)

    def test_a_gateway_that_starts_without_its_issuer_is_alive_and_becomes_ready(self):
        self.idp.state = "503"
        daemon = self.gateway(self.issuer())
        self.assertEqual(daemon.fetch("/livez").strip(), "ok")
        self.assertFalse(self.ready())
        self.assertEqual(self.status(self.token()), 401)
        self.assertIn(self.idp.url, json.loads(daemon.fetch("/status"))["issuers_without_keys"])
        self.idp.state = "ok"
        self.until(self.ready, 30, "it does not become ready")
        self.assertEqual(self.status(self.token()), 200)
        # An outage later on locks nobody out.
        self.idp.state = "503"
        self.assertEqual(self.status(self.token("rsa_att")), 401)
        self.assertEqual(self.status(self.token(jti="another")), 200)
        self.assertTrue(self.ready())

    def test_a_token_is_revoked_by_the_name_in_its_record(self):
        self.gateway(self.issuer())
        self.until(self.ready, 10, "the keys are not found")
        one, two = self.token(jti="one"), self.token(jti="two")
        self.assertEqual((self.status(one), self.status(two)), (200, 200))
        self.until(self.daemon.audit_lines, 5, "nothing is on record")
        first = json.loads(self.daemon.audit_lines()[0])
        self.daemon.fetch("/admin/v1/revocations", {"kind": "token", "credential": first["credential"]})
        self.assertEqual((self.status(one), self.status(two)), (401, 200))

    def test_a_shared_issuer_names_the_tenant(self):
        shared = {**self.issuer(), "claims": {"tenant": "tenant"}}
        daemon = self.gateway(None, {"shared_issuers": [shared]}, start=False)
        daemon.add({"tenant": "tenant-b", "upstreams": {"two": {"url": upstream.serve(self.journal)}}})
        daemon.start()
        self.until(self.ready, 10, "the keys are not found")
        for tenant, prefix in (("default", "one__"), ("tenant-b", "two__")):
            for path in ("/mcp", f"/t/{tenant}/mcp"):
                status, _, answer = self.ask(self.token(tenant=tenant), path=path)
                self.assertEqual(status, 200, path)
                self.assertTrue(all(tool["name"].startswith(prefix) for tool in answer["result"]["tools"]), path)
        self.assertEqual(self.status(self.token(tenant="tenant-b"), path="/t/default/mcp"), 401)
        self.assertEqual(self.status(self.token(tenant="tenant-c")), 401)
        with urllib.request.urlopen(daemon.url + "/.well-known/oauth-protected-resource/mcp", timeout=5) as page:
            self.assertEqual(json.load(page)["authorization_servers"], [self.idp.url])

    def test_a_tool_asks_for_its_scopes(self):
        hierarchy = {"x:admin": ["x:write"], "x:write": ["x:read"]}
        needed = {"scopes": ["x:read"], "tool_scopes": {"echo": ["x:write", "x:admin"]}}
        self.gateway(self.issuer(scope_hierarchy=hierarchy), more=needed)
        self.until(self.ready, 10, "the keys are not found")

        def call(scope, name="one__echo"):
            return self.ask(self.token(scope=scope), "tools/call", name, arguments={"text": "hello"})

        for scope in ("other", "x:read", "x:write"):
            listed = self.ask(self.token(scope=scope))[2]["result"]["tools"]
            self.assertIn("one__echo", [tool["name"] for tool in listed])
            status, headers, answer = call(scope)
            self.assertEqual((status, answer["error"]["data"]["reason"], answer["id"]), (403, "insufficient_scope", 1))
            challenge = headers["www-authenticate"]
            self.assertTrue(challenge.startswith('Bearer error="insufficient_scope", scope="x:admin", '), challenge)
            self.assertIn("resource_metadata=", challenge)
        self.assertEqual(self.journal_calls(), 0)
        status, _, answer = call("x:admin")
        self.assertEqual((status, answer["result"].get("isError")), (200, None))
        status, _, answer = call("other", "one__nothing")
        self.assertEqual((status, answer["error"]["code"]), (200, -32602), "missing is missing")
        self.assertEqual(self.journal_calls(), 1)
        self.assertIn('"rule":"scopes"', "".join(self.daemon.audit_lines()))

    def journal_calls(self):
        lines = (self.folder / "one.jsonl").read_text().splitlines()
        return sum(json.loads(line)["method"] == "tools/call" for line in lines)


if __name__ == "__main__":
    unittest.main()
