#!/usr/bin/env python3
"""`portcullis connect` logs in at a real authorization server, and the gateway takes the tokens that this gives."""

import base64
import hashlib
import html
import http.cookiejar
import json
import re
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
import client
import provider
import upstream
from daemon import Daemon, binary

SECRET = "r0bot-s3cret"
ROBOT = {
    "client_id": "robot",
    "client_secret": SECRET,
    "grant_types": ["client_credentials"],
    "redirect_uris": [],
    "response_types": [],
}
BY_HAND = {
    "client_id": "by-hand",
    "application_type": "native",
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code", "refresh_token"],
    "redirect_uris": ["http://127.0.0.1/callback"],
}


class Browser(urllib.request.HTTPRedirectHandler):
    """Logs in and consents as a user would, up to where it would be sent back."""

    def __init__(self):
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(self, cookies)

    def redirect_request(self, request, *rest):
        self.place = rest[-1]
        return None if "/callback?" in self.place else super().redirect_request(request, *rest)

    def fetch(self, place, form=None):
        body = urllib.parse.urlencode(form).encode() if form else None
        try:
            with self.opener.open(place, body, timeout=10) as answer:
                return answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.url, error.read().decode()

    def answer(self, page, user="ann"):
        """The address that the browser is sent back to. None when it is not."""
        self.place = ""
        place, text = self.fetch(page)
        for _ in range(4):
            if "/callback?" in self.place:
                return self.place
            action = re.search(r'<form[^>]* action="([^"]+)"', text)
            if action is None:
                return None
            form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', text))
            if form["prompt"] == "login":
                form |= {"login": user, "password": "x"}
            place, text = self.fetch(urllib.parse.urljoin(place, html.unescape(action[1])), form)
        return None


class Logins(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="portcullis-login-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.errors = self.folder / "errors"
        self.errors.touch()
        self.browser = Browser()
        self.issuer = provider.start(self, "login.mjs", json.dumps([ROBOT, BY_HAND]))
        self.daemon = Daemon(self.folder, self.upstreams(), tenant=self.tenant("tools.read")).start()
        self.addCleanup(self.daemon.stop)
        self.url = self.daemon.url + "/mcp"

    def upstreams(self):
        return {"one": {"url": upstream.serve(upstream.Journal(self.folder / "one.jsonl"))}}

    def tenant(self, *scopes):
        issuer = {"issuer": self.issuer, "jwks": self.issuer + "/jwks", "required_scopes": list(scopes)}
        return {"identity": {"issuers": [issuer]}}

    def connect(self, *options):
        self.errors.write_text("")
        script = 'exec "$@" 2>>"$0"'
        command = ["sh", "-c", script, str(self.errors), binary(), "connect", self.url, "--no-browser", *options]
        env = {"XDG_STATE_HOME": str(self.folder / "user"), "PATH": "/usr/bin:/bin"}
        asker = client.Stdio(command, env)
        self.addCleanup(asker.process.stdout.close)
        self.addCleanup(asker.close)
        return asker

    def page(self, after=0):
        """The address of the login that follows so many others."""
        end = time.monotonic() + 15
        while time.monotonic() < end:
            pages = re.findall(r"^log in to \S+: open (\S+)$", self.errors.read_text(), re.MULTILINE)
            if len(pages) > after:
                return pages[after]
            time.sleep(0.02)
        self.fail(f"no login: {self.errors.read_text()}")

    def log_in(self, after=0):
        back = self.browser.answer(self.page(after))
        self.assertIsNotNone(back)
        status, text = bring(back)
        self.assertEqual((status, "closed" in text), (200, True), text)
        return back

    def begin(self, asker, method, params=None):
        asker._write(asker.request(method, params))
        return asker.last

    def awaited(self, asker, last):
        while True:
            answer = json.loads(asker.lines.get(timeout=20))
            if answer.get("id") == last:
                return answer

    def hello(self, asker):
        params = {"protocolVersion": client.REVISION, "capabilities": {}}
        return self.begin(asker, "initialize", params | {"clientInfo": {"name": "tests", "version": "1"}})

    def call(self, asker):
        return self.begin(asker, "tools/call", {"name": "one__echo", "arguments": {"n": 1}})

    def works(self, asker):
        answer = self.awaited(asker, self.call(asker))
        self.assertNotIn("isError", answer["result"], answer)

    def files(self):
        folder = self.folder / "user/portcullis/logins"
        return [file for file in sorted(folder.glob("*.json")) if not file.name.startswith("client.")]

    def kept(self):
        [file] = self.files()
        return json.loads(file.read_text())

    def silent(self, *secrets):
        """None of these is in anything that is said."""
        pages = [self.daemon.fetch("/status"), self.daemon.fetch("/metrics")]
        said = "\n".join([self.errors.read_text(), self.daemon.log_text(), *self.daemon.audit_lines(), *pages])
        for secret in secrets:
            self.assertNotIn(secret, said)

    def logged_in(self, *options):
        asker = self.connect(*options)
        last = self.hello(asker)
        self.log_in()
        self.assertEqual(self.awaited(asker, last)["result"]["serverInfo"]["name"], "portcullis")
        asker.tell("notifications/initialized")
        return asker

    def test_a_user_logs_in_once(self):
        asker = self.connect()
        last = self.hello(asker)
        page = fields(self.page())
        asked = (page["resource"], page["scope"], page["code_challenge_method"])
        self.assertEqual(asked, (self.url, "tools.read offline_access", "S256"))
        back = self.log_in()
        self.assertIn("result", self.awaited(asker, last))
        asker.tell("notifications/initialized")
        self.works(asker)
        [file] = self.files()
        self.assertEqual((file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777), (0o600, 0o700))
        kept = self.kept()
        claims = part(kept["access_token"], 1)
        self.assertEqual((claims["sub"], claims["aud"], claims["iss"]), ("ann", self.url, self.issuer))
        self.silent(kept["access_token"], kept["refresh_token"], fields(back)["code"])
        asker.close()

        # The next start has it.
        asker = self.connect()
        self.assertIn("result", self.awaited(asker, self.hello(asker)))
        self.works(asker)
        asker.close()
        self.assertEqual(self.errors.read_text(), "")
        self.assertEqual(self.kept(), kept)

        # And one that comes when it is over has a new one, without a user; the refresh token is another too.
        file.write_text(json.dumps({**kept, "expires": 1}))
        asker = self.connect()
        self.assertIn("result", self.awaited(asker, self.hello(asker)))
        self.works(asker)
        asker.close()
        fresh = self.kept()
        for member in ("access_token", "refresh_token"):
            self.assertNotEqual(fresh[member], kept[member])
        self.assertGreater(fresh["expires"], time.time())
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.silent(*(one[member] for one in (kept, fresh) for member in ("access_token", "refresh_token")))
        self.assertEqual(self.errors.read_text(), "")

    def test_a_token_that_is_refused_is_renewed_while_a_client_runs(self):
        asker = self.logged_in()
        self.works(asker)
        before = self.kept()["access_token"]
        self.refuse(before)
        self.works(asker)
        fresh = self.kept()
        self.assertNotEqual(fresh["access_token"], before)
        # Where there is nothing to renew it with, the user is asked again.
        form = {"token": fresh["refresh_token"], "client_id": fresh["client_id"]}
        post(self.issuer + "/token/revocation", form)
        self.refuse(fresh["access_token"])
        call = self.call(asker)
        self.log_in(1)
        self.assertIn("result", self.awaited(asker, call))
        asker.close()

    def refuse(self, token):
        """The gateway takes this token no more."""
        claims = part(token, 1)
        revoked = {"kind": "token", "credential": name_of(claims["iss"], claims["jti"])}
        self.daemon.fetch("/admin/v1/revocations", revoked)

    def test_more_scopes_are_asked_for_where_they_are_wanted(self):
        asker = self.logged_in()
        self.works(asker)
        self.daemon.stop()
        wanted = self.tenant("tools.read", "tools.write")
        self.daemon.add({"tenant": "default", "upstreams": self.upstreams(), **wanted})
        self.daemon.start()
        # Whoever finds out that the session is gone, it is opened again with more scopes.
        call = self.call(asker)
        page = self.page(1)
        scopes = fields(page)["scope"]
        self.assertEqual(scopes, "tools.read tools.write offline_access")
        self.log_in(1)
        self.awaited(asker, call)
        self.works(asker)
        self.assertEqual(self.kept()["scopes"], ["tools.read", "tools.write"])
        asker.close()

    def test_what_does_not_come_from_the_provider_gets_no_token(self):
        asker = self.connect()
        last = self.hello(asker)
        back = self.browser.answer(self.page())
        self.assertEqual(bring(changed(back, state="guess"))[0], 400)
        bring(changed(back, iss=self.issuer + "/"))
        answer = self.awaited(asker, last)
        self.assertIn("not of the authorization server", answer["error"]["message"])
        self.assertEqual(self.files(), [])
        # It was for one answer only.
        with self.assertRaises(urllib.error.URLError):
            bring(back)
        last = self.hello(asker)
        self.log_in(1)
        self.assertIn("result", self.awaited(asker, last))
        asker.close()

    def test_a_client_that_was_registered_by_hand_serves_and_a_logout_ends_it(self):
        asker = self.logged_in("--client-id", "by-hand")
        self.works(asker)
        asker.close()
        kept = self.kept()
        self.assertEqual(part(kept["access_token"], 1)["client_id"], "by-hand")
        self.assertEqual(self.connect("--logout").process.wait(10), 0)
        self.assertEqual(self.files(), [])
        form = {"grant_type": "refresh_token", "refresh_token": kept["refresh_token"], "client_id": "by-hand"}
        with self.assertRaises(urllib.error.HTTPError) as refused:
            post(self.issuer + "/token", form)
        with refused.exception as answer:
            self.assertIn("invalid_grant", answer.read().decode())

    def test_a_robot_has_a_token_of_its_own(self):
        basic = base64.b64encode(f"robot:{SECRET}".encode()).decode()
        form = {"grant_type": "client_credentials", "scope": "tools.read", "resource": self.url}
        token = post(self.issuer + "/token", form, authorization=f"Basic {basic}")["access_token"]
        for kind in (client.Modern, client.Http):
            asker = kind(self.url, token=token).open()
            self.addCleanup(asker.connection.close)
            self.assertNotIn("isError", json.loads(asker.result("tools/call", {"name": "one__echo"})))
        # Not one for somebody else.
        other = post(self.issuer + "/token", {**form, "resource": self.url + "x"}, authorization=f"Basic {basic}")
        asker = client.Modern(self.url, token=other["access_token"])
        self.addCleanup(asker.connection.close)
        with self.assertRaisesRegex(client.Failure, "not accepted"):
            asker.result("tools/call", {"name": "one__echo"})
        self.silent(token, other["access_token"], SECRET)


def bring(back):
    """Takes an answer to where it is awaited."""
    try:
        with urllib.request.urlopen(back, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def fields(place):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(place).query))


def changed(place, **others):
    query = urllib.parse.urlencode({**fields(place), **others})
    return urllib.parse.urlsplit(place)._replace(query=query).geturl()


def post(place, form, **headers):
    request = urllib.request.Request(place, urllib.parse.urlencode(form).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or "null")


def part(token, number):
    text = token.split(".")[number]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def name_of(*parts):
    """What the gateway calls a token by, from its issuer and its id."""
    digest = hashlib.sha256()
    for text in parts:
        digest.update(len(text).to_bytes(8, "big") + text.encode())
    return "jwt:" + digest.hexdigest()[:32]


if __name__ == "__main__":
    unittest.main()
