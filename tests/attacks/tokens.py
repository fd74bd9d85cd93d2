"""Tokens by recipe, signed with keys that live as long as this process. Needs `cryptography`."""

import base64
import hashlib
import hmac
import json
import os
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LIFE_S = 3600
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
SPKI, PKCS1 = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def big_endian(number):
    return encoded(number.to_bytes((number.bit_length() + 7) // 8, "big"))


class Keys:
    """The issuer's keys, and those of an attacker."""

    IDS = {
        "rsa1": "k-rsa-1",
        "rsa2": "k-rsa-2",
        "rsa_grace": "k-rsa-0",
        "rsa_att": "k-att",
        "rsa_enc": "k-enc",
        "rsa_weak": "k-weak",
        "rsa_new": "k-rsa-3",
        "ec1": "k-ec-1",
        "ed1": "k-ed-1",
    }
    PUBLISHED = ("rsa1", "rsa2", "rsa_grace", "ec1", "ed1")

    def __init__(self):
        self.keys = {name: self.made(name) for name in self.IDS}

    def made(self, name):
        if name == "ec1":
            return ec.generate_private_key(ec.SECP256R1())
        if name == "ed1":
            return ed25519.Ed25519PrivateKey.generate()
        return rsa.generate_private_key(65537, 1024 if name == "rsa_weak" else 2048)

    def jwk(self, name, **more):
        public = self.keys[name].public_key()
        if name.startswith("rsa"):
            numbers = public.public_numbers()
            shown = {"kty": "RSA", "n": big_endian(numbers.n), "e": big_endian(numbers.e), "alg": "RS256"}
        elif name.startswith("ec"):
            numbers = public.public_numbers()
            x, y = (encoded(part.to_bytes(32, "big")) for part in (numbers.x, numbers.y))
            shown = {"kty": "EC", "crv": "P-256", "x": x, "y": y, "alg": "ES256"}
        else:
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            shown = {"kty": "OKP", "crv": "Ed25519", "x": encoded(raw), "alg": "EdDSA"}
        return {**shown, "kid": self.IDS[name], "use": "sig", **more}

    def jwks(self):
        """What the issuer publishes, with keys in it that must not count."""
        shared = {"kty": "oct", "k": encoded(b"published-secret"), "kid": "k-oct", "alg": "HS256"}
        odd = [self.jwk("rsa_enc", use="enc", alg="RSA-OAEP"), self.jwk("rsa_weak"), shared]
        return {"keys": [self.jwk(name) for name in self.PUBLISHED] + odd}

    def hmac_key(self, named):
        """Something public, taken for a secret."""
        if named.startswith("bytes:"):
            return named[6:].encode()
        public, form = self.keys["rsa1"].public_key(), named[4:]
        forms = {
            "spki_pem": lambda: public.public_bytes(PEM, SPKI),
            "spki_pem_nonl": lambda: public.public_bytes(PEM, SPKI).rstrip(b"\n"),
            "pkcs1_pem": lambda: public.public_bytes(PEM, PKCS1),
            "spki_der": lambda: public.public_bytes(DER, SPKI),
            "jwk_n": lambda: self.jwk("rsa1")["n"].encode(),
            "jwk_json": lambda: json.dumps(self.jwk("rsa1")).encode(),
        }
        return forms[form]()

    def signature(self, how, data):
        algorithm = how["alg"]
        if algorithm == "none":
            return b""
        if algorithm.startswith("HS"):
            return hmac.new(self.hmac_key(how["key"]), data, getattr(hashlib, "sha" + algorithm[2:])).digest()
        key, digest = self.keys[how["key"]], HASHES.get(algorithm[2:])
        if algorithm.startswith("RS"):
            return key.sign(data, padding.PKCS1v15(), digest)
        if algorithm.startswith("PS"):
            return key.sign(data, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
        if algorithm == "EdDSA":
            return key.sign(data)
        signed = key.sign(data, ec.ECDSA(digest))
        if how.get("der"):
            return signed
        return b"".join(part.to_bytes(32, "big") for part in decode_dss_signature(signed))


class Issuer:
    """Makes tokens for one audience, and bad ones."""

    def __init__(self, keys, name, audience, other_audience):
        self.keys, self.name, self.audience = keys, name, audience
        self.words = [
            ("$AUD_TENANT_B", other_audience),
            ("$AUD_UPPER", audience.replace("http://localhost", "HTTP://LOCALHOST")),
            ("$AUD", audience),
            ("$ISS_B", name + "/b"),
            ("$ISS", name),
        ]

    def filled(self, value, number):
        """A recipe's value with its words and times put in."""
        if isinstance(value, str):
            if value.startswith("$JWK:"):
                return self.keys.jwk(value[5:])
            for word, meaning in [*self.words, ("$N", str(number))]:
                value = value.replace(word, meaning)
            return value
        if isinstance(value, list):
            return [self.filled(inner, number) for inner in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"$now"}:
            return int(time.time()) + value["$now"]
        if set(value) == {"$rep"}:
            return value["$rep"][0] * value["$rep"][1]
        return {key: self.filled(inner, number) for key, inner in value.items()}

    def token(self, recipe, number=0):
        header, payload = self.header(recipe, number), self.payload(recipe, number)
        for dropped in recipe.get("drop", []):
            where, key = dropped.split(".")
            (header if where == "header" else payload).pop(key, None)
        head, body = self.header_text(recipe, header), self.payload_text(recipe, payload, number)
        parts = [encoded(head), encoded(body)]
        signature = self.keys.signature(recipe["sign"], ".".join(parts).encode())
        if "header_after_sign" in recipe:
            parts[0] = encoded(compact({**header, **recipe["header_after_sign"]}))
        if "payload_after_sign" in recipe:
            parts[1] = encoded(compact({**payload, **recipe["payload_after_sign"]}))
        return mutated([*parts, encoded(signature)], signature, recipe.get("mutate", []))

    def header(self, recipe, number):
        how = recipe["sign"]
        header = {"alg": how["alg"], "typ": "JWT"}
        if how.get("key") in Keys.IDS:
            header["kid"] = Keys.IDS[how["key"]]
        elif how["alg"] != "none":
            header["kid"] = "k-rsa-1"
        more = {**recipe.get("header", {}), **recipe.get("header_forced", {})}
        return {**header, **self.filled(more, number)}

    def payload(self, recipe, number):
        now = int(time.time())
        payload = {
            "iss": self.name,
            "aud": self.audience,
            "sub": "a1",
            "tenant": "tenant-a",
            "scope": "mcp:list mcp:call",
            "iat": now - 5,
            "exp": now + LIFE_S,
            "jti": os.urandom(8).hex(),
        }
        return {**payload, **self.filled(recipe.get("payload", {}), number)}

    def header_text(self, recipe, header):
        if "raw_header_hex" in recipe:
            return bytes.fromhex(recipe["raw_header_hex"])
        return recipe["raw_header"].encode() if "raw_header" in recipe else compact(header)

    def payload_text(self, recipe, payload, number):
        text = compact(payload)
        if "raw_payload" in recipe:
            text = recipe["raw_payload"].encode()
        if "raw_payload_gen" in recipe:
            opening, times, inner, closing = recipe["raw_payload_gen"]
            text = (opening * times + inner + closing * times).encode()
        if recipe.get("raw_payload_bom"):
            text = b"\xef\xbb\xbf" + text
        if "raw_claim" in recipe:
            name, value = recipe["raw_claim"]
            rest = {key: one for key, one in payload.items() if key != name}
            text = compact(rest)[:-1] + f',"{name}":{self.filled(value, number)}}}'.encode()
        return text + recipe.get("raw_payload_suffix", "").encode()


def mutated(parts, signature, changes):
    """The token as text, after what was done to it."""
    for change, *with_what in changes:
        match change:
            case "sig_bytes":
                parts[2] = encoded(bytes.fromhex(with_what[0]))
            case "sig_truncate":
                parts[2] = encoded(signature[: with_what[0]])
            case "strip_sig":
                parts[2] = ""
            case "flip_sig":
                parts[2] = encoded(bytes([signature[0] ^ 0x80]) + signature[1:])
            case "segments":
                parts = parts[: with_what[0]]
            case "append":
                parts[-1] += with_what[0]
            case "pad":
                parts = [part + "=" * (-len(part) % 4) for part in parts]
                parts[1] += "" if parts[1].endswith("=") else "===="
            case "std_b64":
                parts = [part.replace("-", "+").replace("_", "/") for part in parts]
            case "noncanonical":
                # 256 bytes of signature leave four unused bits in the last character.
                parts[2] = parts[2][:-1] + ALPHABET[ALPHABET.index(parts[2][-1]) ^ 1]
            case "replace":
                return with_what[0]
            case "insert":
                text, at = ".".join(parts), with_what[0]
                return text[:at] + with_what[1] + text[at:]
            case "pct":
                return "%2E".join(parts)
            case _:
                raise ValueError(f"no such change: {change}")
    return ".".join(parts)
