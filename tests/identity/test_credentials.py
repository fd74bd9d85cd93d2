#!/usr/bin/env python3
"""What upstreams get to see of the gateway: tokens of a real authorization server, exchanged tokens, signed identities."""

import base64
import http.server
import json
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kit"), str(HERE.parent / "attacks")]
import client
import provider
import upstream
from daemon import Daemon

SECRET = "cl13nt-s3cret/with+signs"


def setUpModule():
    import interpreter

    interpreter.with_cryptography()


def part(token, number):
    text = token.split(".")[number]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


class Stand(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="portcullis-credentials-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        (self.folder / "secrets").mkdir()
        (self.folder / "secrets/CLIENT").write_text(SECRET + "\n")

    def server(self, name):
        """An MCP server that writes down what it gets: its URL, and the headers of all calls of tools."""
        path = self.folder / f"{name}.jsonl"
        url = upstream.serve(upstream.Journal(path))

        def calls():
            messages = map(json.loads, path.read_text().splitlines())
            return [message["headers"] for message in messages if message["method"] == "tools/call"]

        return url, calls

    def gateway(self, upstreams, **tenant):
        daemon = Daemon(self.folder, upstreams, tenant={"identity": {}, **tenant}).start()
        self.addCleanup(daemon.stop)
        return daemon

    def caller(self, daemon, principal, kind="keys"):
        """A credential of the gateway's own."""
        asked = {"tenant": "default", "principal": principal}
        if kind == "keys":
            return re.search(r"pck_\w+", daemon.fetch("/admin/v1/keys", {**asked, "name": principal}))[0]
        asked["groups"] = ["eng"]
        return re.search(r"eyJ[\w.-]+", daemon.fetch("/admin/v1/jwt", asked))[0]

    def call(self, daemon, token, tool):
        asker = client.Modern(daemon.url + "/mcp", token=token)
        self.addCleanup(asker.connection.close)
        return json.loads(asker.result("tools/call", {"name": tool, "arguments": {}}))

    def silent(self, daemon, *secrets):
        """None of these is in anything that the gateway says."""
        said = "\n".join([daemon.log_text(), *daemon.audit_lines(), daemon.fetch("/status"), daemon.fetch("/metrics")])
        for secret in secrets:
            self.assertNotIn(secret, said)


class OfTheGateway(Stand):
    """Client credentials, against oidc-provider."""

    def provider(self, clients):
        return provider.start(self, "provider.mjs", json.dumps(clients))

    def test_a_secret_gets_a_token_for_this_upstream(self):
        issuer = self.provider([{"client_id": "gate", "client_secret": SECRET}])
        url, calls = self.server("one")
        grant = {"client_id": "gate", "client_secret": "${secret:CLIENT}", "scopes": ["tools.call"]}
        by_name = {"url": url, "credential": {"client": {"issuer": issuer, **grant}}}
        by_place = {"url": url, "credential": {"client": {"token_url": f"{issuer}/token", **grant}}}
        daemon = self.gateway({"named": by_name, "placed": by_place})
        key = self.caller(daemon, "ann")
        for tool in ("named__echo", "placed__echo", "named__echo"):
            self.assertNotIn("isError", self.call(daemon, key, tool))
        tokens = [headers["authorization"].removeprefix("Bearer ") for headers in calls()]
        self.assertEqual(tokens[0], tokens[2])
        self.assertNotEqual(tokens[0], tokens[1], "each upstream asks for its own")
        claims = part(tokens[0], 1)
        self.assertEqual((claims["iss"], claims["aud"], claims["scope"]), (issuer, url, "tools.call"))
        self.silent(daemon, SECRET, *tokens, key)
        self.assertNotIn(key, json.dumps(calls()))

    def test_a_key_proves_the_gateway(self):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        keys = {
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
            "RS256": rsa.generate_private_key(65537, 2048),
        }
        clients, upstreams = [], {}
        url, calls = self.server("keyed")
        for name, key in keys.items():
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            (self.folder / f"{name}.pem").write_bytes(pem)
            clients.append(
                {
                    "client_id": name,
                    "token_endpoint_auth_method": "private_key_jwt",
                    "token_endpoint_auth_signing_alg": name,
                    "jwks": {"keys": [{**jwk(key), "kid": "k1", "use": "sig", "alg": name}]},
                }
            )
        issuer = self.provider(clients)
        for name in keys:
            grant = {"issuer": issuer, "client_id": name, "key_id": "k1", "algorithm": name}
            grant["private_key"] = str(self.folder / f"{name}.pem")
            upstreams[name.lower()] = {"url": url, "credential": {"client": grant}}
        daemon = self.gateway(upstreams)
        key = self.caller(daemon, "ann")
        for name in upstreams:
            self.assertNotIn("isError", self.call(daemon, key, f"{name}__echo"), name)
        clients = [part(headers["authorization"], 1)["client_id"] for headers in calls()]
        self.assertEqual(clients, list(keys))

    def test_a_wrong_secret_fails_this_upstream_alone(self):
        issuer = self.provider([{"client_id": "gate", "client_secret": "another"}])
        url, _ = self.server("one")
        grant = {"issuer": issuer, "client_id": "gate", "client_secret": "${secret:CLIENT}"}
        daemon = self.gateway({"bad": {"url": url, "credential": {"client": grant}}, "good": {"url": url}})
        key = self.caller(daemon, "ann")
        self.assertNotIn("isError", self.call(daemon, key, "good__echo"))
        [bad] = [one for one in daemon.upstreams() if one["id"] == "bad"]
        self.assertIn("invalid_client", json.dumps(bad))
        self.silent(daemon, SECRET)


class OfTheCaller(Stand):
    def exchange(self, refuses=()):
        """A token server of our own, and the forms that it got."""
        forms = []

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = dict(urllib.parse.parse_qsl(body, strict_parsing=True))
                forms.append(form)
                subject = part(form["subject_token"], 1)["sub"] if "subject_token" in form else "gateway"
                status = 400 if subject in refuses else 200
                token = {"access_token": f"for-{subject}", "token_type": "Bearer", "expires_in": 300}
                text = json.dumps({"error": "invalid_grant"} if status == 400 else token).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/token", forms

    def test_each_caller_has_a_token_of_its_own(self):
        place, forms = self.exchange(refuses=("eve",))
        url, calls = self.server("files")
        grant = {"token_url": place, "client_id": "gate", "client_secret": "${secret:CLIENT}", "audience": "files"}
        daemon = self.gateway({"files": {"url": url, "credential": {"exchange": grant}}})
        ann, bob, eve = (self.caller(daemon, name, "jwt") for name in ("ann", "bob", "eve"))
        for token in (ann, bob, ann):
            self.assertNotIn("isError", self.call(daemon, token, "files__echo"))
        shown = [headers["authorization"] for headers in calls()]
        self.assertEqual(shown, ["Bearer for-ann", "Bearer for-bob", "Bearer for-ann"])
        wanted = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": ann,
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": url,
            "audience": "files",
        }
        exchanged = [form for form in forms if "subject_token" in form]
        self.assertEqual(exchanged[0], wanted)
        self.assertEqual(len(exchanged), 2)
        self.refused(self.call(daemon, eve, "files__echo"), "invalid_grant")
        self.refused(self.call(daemon, self.caller(daemon, "kim"), "files__echo"), "a token of the caller's own")
        self.assertNotIn("isError", self.call(daemon, bob, "files__echo"))
        self.assertNotIn(ann, json.dumps(calls()))
        self.silent(daemon, SECRET, ann, bob, eve)

    def refused(self, result, words):
        self.assertTrue(result["isError"])
        self.assertIn(words, result["content"][0]["text"])
        self.assertIn("upstream_credential", json.dumps(result["_meta"]))

    def test_who_calls_is_signed_by_the_gateway(self):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        url, calls = self.server("intranet")
        credential = {"principal": {"headers": {"subject": "X-User", "tenant": "X-Tenant", "groups": "X-Groups"}}}
        daemon = self.gateway({"intranet": {"url": url, "credential": credential}})
        token = self.caller(daemon, "ann", "jwt")
        self.assertNotIn("isError", self.call(daemon, token, "intranet__echo"))
        [headers] = calls()
        told = (headers["x-user"], headers["x-tenant"], headers["x-groups"])
        self.assertEqual(told, ("ann", "default", "eng"))
        identity = headers["x-portcullis-identity"]
        with urllib.request.urlopen(daemon.url + "/.well-known/jwks.json", timeout=5) as answer:
            [key] = json.load(answer)["keys"]
        signed, signature = identity.rsplit(".", 1)
        public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
        public.verify(base64.urlsafe_b64decode(signature + "=="), signed.encode())
        head, claims = part(identity, 0), part(identity, 1)
        self.assertEqual((head["alg"], head["kid"]), ("EdDSA", key["kid"]))
        self.assertEqual((claims["aud"], claims["sub"], claims["groups"]), (url, "ann", ["eng"]))
        self.assertLessEqual(claims["exp"] - time.time(), 60)
        # It lets nobody in here.
        with self.assertRaisesRegex(client.Failure, "not accepted"):
            self.call(daemon, identity, "intranet__echo")
        self.silent(daemon, identity, token)


def jwk(key):
    """The public half of a key."""
    from cryptography.hazmat.primitives import serialization

    def text(number_or_bytes):
        if isinstance(number_or_bytes, int):
            number_or_bytes = number_or_bytes.to_bytes((number_or_bytes.bit_length() + 7) // 8, "big")
        return base64.urlsafe_b64encode(number_or_bytes).rstrip(b"=").decode()

    public = key.public_key()
    if hasattr(public, "curve"):
        numbers = public.public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        return {"kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)}
    if hasattr(public, "public_numbers"):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": text(numbers.n), "e": text(numbers.e)}
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": text(raw)}


if __name__ == "__main__":
    unittest.main()
