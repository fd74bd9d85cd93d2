"""An issuer on this machine whose key set is served well or badly, by script."""

import http.server
import json
import threading
import time

HUGE_BYTES = 1 << 20


class Provider:
    """Answers `/jwks` and the metadata as the word `state` says: the n-th of a script, and the last one from then on."""

    WORDS = ("ok", "500", "503", "404", "hang", "drip", "redirect", "html", "huge", "empty", "close", "without", "with")
    WORDS += ("noalg", "issuer")

    def __init__(self, keys):
        self.keys, self.state, self.fetched = keys, "ok", 0
        provider = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                provider.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request):
        word, _, more = self.state.rstrip("*").partition(":")
        if ".well-known" in request.path:
            issuer = more if word == "issuer" else self.url
            return self.send(request, {"issuer": issuer, "jwks_uri": f"{self.url}/jwks"})
        if request.path != "/jwks":
            return request.send_error(404)
        self.fetched += 1
        published = self.keys.jwks()
        match word:
            case "500" | "503" | "404":
                request.send_error(int(word))
            case "hang":
                time.sleep(float(more))
            case "drip":
                self.drip(request, published, float(more or 1))
            case "redirect":
                request.send_response(302)
                request.send_header("location", more)
                request.send_header("content-length", "0")
                request.end_headers()
            case "html":
                self.send(request, "<html><body>sign in</body></html>")
            case "huge":
                self.send(request, {**published, "padding": "x" * int(more or HUGE_BYTES)})
            case "empty":
                self.send(request, {"keys": []})
            case "close":
                request.connection.close()
            case "without":
                gone = self.keys.IDS[more]
                self.send(request, {"keys": [key for key in published["keys"] if key["kid"] != gone]})
            case "with":
                self.send(request, {"keys": [*published["keys"], self.keys.jwk(more)]})
            case "noalg":
                bare = [{name: key[name] for name in key if name != "alg"} for key in published["keys"]]
                self.send(request, {"keys": bare})
            case _:
                self.send(request, published)

    def send(self, request, document):
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        request.send_response(200)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def drip(self, request, document, per_second):
        body = json.dumps(document).encode()
        request.send_response(200)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        try:
            for byte in body[:60]:
                request.wfile.write(bytes([byte]))
                time.sleep(1 / per_second)
        except OSError:
            pass  # the other side had enough
