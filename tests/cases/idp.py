"""A fake token issuer with a JWKS. Needs the package `cryptography`."""

import asyncio, base64, secrets, time

from up import J


class Idp:
    def __init__(self):
        self.keys = {}
        self.fetches = 0
        self.up = True
        self.cur = None
        self.rotate()
        self.ghost = self.mk()

    def mk(self):
        from cryptography.hazmat.primitives.asymmetric import rsa

        return ("k" + secrets.token_hex(4), rsa.generate_private_key(65537, 2048))

    def rotate(self):
        self.cur = self.mk()
        self.keys = {self.cur[0]: self.cur[1]}

    async def start(self):
        self.server = await asyncio.start_server(self.conn, "127.0.0.1", 0)
        self.url = "http://127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def conn(self, r, w):
        try:
            line = await r.readline()
            p = line.decode().split(" ")[1]
            while (await r.readline()) not in (b"\r\n", b""):
                pass
            b64 = (
                lambda i: base64.urlsafe_b64encode(i.to_bytes((i.bit_length() + 7) // 8, "big"))
                .rstrip(b"=")
                .decode()
            )
            if not self.up:
                st, b = 503, {}
            elif p.endswith("/jwks"):
                self.fetches += 1
                st, b = 200, {
                    "keys": [
                        {
                            "kty": "RSA",
                            "use": "sig",
                            "alg": "RS256",
                            "kid": k,
                            "n": b64(v.public_key().public_numbers().n),
                            "e": b64(65537),
                        }
                        for k, v in self.keys.items()
                    ]
                }
            elif ".well-known" in p:
                st, b = 200, {
                    "issuer": self.url,
                    "jwks_uri": self.url + "/jwks",
                    "authorization_endpoint": self.url + "/auth",
                    "token_endpoint": self.url + "/token",
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                }
            else:
                st, b = 404, {}
            d = J(b).encode()
            w.write(
                (
                    "HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
                    % (st, len(d))
                ).encode()
                + d
            )
            await w.drain()
        except Exception:
            pass
        finally:
            w.close()

    def token(self, claims, aud):
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives import hashes

        c = dict(claims)
        kid = c.pop("kid", None)
        key = self.ghost if kid == "other" else self.cur
        now = int(time.time())
        out = {"iss": self.url, "aud": aud, "iat": 0, "exp": 300}
        out.update(c)
        out = {
            k: (v + now if k in ("iat", "nbf", "exp") and isinstance(v, (int, float)) else v)
            for k, v in out.items()
            if v is not None
        }
        e = lambda o: base64.urlsafe_b64encode(o if isinstance(o, bytes) else J(o).encode()).rstrip(b"=")
        kidv = key[0] if kid != "other" else "ghost-" + secrets.token_hex(4)
        t = e({"alg": "RS256", "typ": "JWT", "kid": kidv}) + b"." + e(out)
        return (t + b"." + e(key[1].sign(t, padding.PKCS1v15(), hashes.SHA256()))).decode()
