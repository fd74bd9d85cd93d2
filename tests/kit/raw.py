"""JSON as text: where each value stands, so that two messages can be compared byte for byte."""

import json
from json.decoder import scanstring

_decoder = json.JSONDecoder()
_SPACE = " \t\r\n"


def _skip(text, at):
    while text[at] in _SPACE:
        at += 1
    return at


def members(text, at=0):
    """The members of the object that begins at `at`: key -> (start, end) of its value, in order."""
    at = _skip(text, at)
    if text[at] != "{":
        return {}
    found, at = {}, _skip(text, at + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1, False)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _decoder.raw_decode(text, start)
        found[key] = (start, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def elements(text):
    """The elements of an array, each as it was written."""
    found, at = [], _skip(text, _skip(text, 0) + 1)
    while text[at] != "]":
        _, end = _decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def span(text, *path):
    """Where the value at this path of keys stands, or None."""
    start, end = _skip(text, 0), len(text.rstrip(_SPACE))
    for key in path:
        inner = members(text, start)
        if key not in inner:
            return None
        start, end = inner[key]
    return start, end


def value(text, *path):
    """The text of the value at this path of keys, or None."""
    found = span(text, *path)
    return text[found[0] : found[1]] if found else None


def replaced(text, path, new):
    """The same text with another value at this path; unchanged where there is none."""
    found = span(text, *path)
    return text[: found[0]] + new + text[found[1] :] if found else text
