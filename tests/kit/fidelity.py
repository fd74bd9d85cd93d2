"""Is a list that came through the gateway the upstream's own, in every byte but names and URIs?"""

import json
import re

import raw
from lists import LISTS

NAME_MAX = 64
# MCP Apps: where a tool's `_meta` names a resource of its server.
APP_URIS = [("_meta", "ui", "resourceUri"), ("_meta", "ui/resourceUri")]


def upstream_id(name, taken=()):
    """A configuration id for a name: `[a-z0-9]+([-_][a-z0-9]+)*`, at most 24 characters, not taken yet."""
    fits = re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name) and len(name) <= 24
    base = name if fits else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:21].strip("-") or "up"
    found, number = base, 2
    while found in taken:
        found, number = f"{base[:21].rstrip('-_')}-{number}", number + 1
    return found


def scheme(upstream):
    """The URI prefix of an upstream: its id as the start of a legal scheme."""
    return ("u.." if upstream[0].isdigit() else "") + upstream.replace("_", ".") + "+"


def exposed_fits(upstream, native, exposed, key):
    """Does an exposed name or URI follow the naming rule?"""
    if key != "name":
        return exposed == scheme(upstream) + native
    plain = f"{upstream}__{native}"
    if re.fullmatch(r"[A-Za-z0-9_-]+", native) and len(plain) <= NAME_MAX:
        return exposed == plain
    return re.fullmatch(rf"{upstream}__[A-Za-z0-9_-]+", exposed) and len(exposed) <= NAME_MAX


def owner(key, exposed, upstreams):
    """The upstream that an exposed name or URI belongs to."""
    for upstream in upstreams:
        if exposed.startswith(f"{upstream}__" if key == "name" else scheme(upstream)):
            return upstream
    return None


def masked(item, key, member):
    """An item without what the gateway may change, and the values taken out."""
    paths = [(key,)] + (APP_URIS if member == "tools" else [])
    values = [json.loads(raw.value(item, *path) or "null") for path in paths]
    for path in paths:
        item = raw.replaced(item, path, "null")
    return item, values


def differences(upstream, member, native, exposed):
    """Sentences that say where the exposed items are not the native ones; texts on both sides."""
    key = LISTS[member][1]
    ours = sorted(masked(item, key, member) for item in native)
    theirs = sorted(masked(item, key, member) for item in exposed)
    if [item for item, _ in ours] != [item for item, _ in theirs]:
        return mismatch(member, ours, theirs)
    found = []
    for (_, (name, *uris)), (_, (shown, *shown_uris)) in zip(ours, theirs):
        if not exposed_fits(upstream, name, shown, key):
            found.append(f"{member}: `{name}` is exposed as `{shown}`")
        for uri, shown_uri in zip(uris, shown_uris):
            if uri is not None and not exposed_fits(upstream, uri, shown_uri, "uri"):
                found.append(f"{member}: `{name}` names `{uri}`, exposed as `{shown_uri}`")
    return found


def mismatch(member, ours, theirs):
    """Which items differ, and from which byte on."""
    texts, shown = [item for item, _ in ours], [item for item, _ in theirs]
    lost = [pair for pair in ours if pair[0] not in shown]
    new = [pair for pair in theirs if pair[0] not in texts]
    found = [f"{member}: {len(ours)} native items, {len(theirs)} exposed"]
    for item, (name, *_) in lost[:3]:
        close = next((other for other, (exposed, *_) in new if str(exposed).endswith(str(name))), "")
        at = next((i for i, (a, b) in enumerate(zip(item, close)) if a != b), min(len(item), len(close)))
        came = close[max(0, at - 40) : at + 80] or "nothing"
        found.append(
            f"{member}: `{name}` differs: expected …{item[max(0, at - 40) : at + 80]}… came …{came}…"
        )
    found += [f"{member}: unexpected `{exposed}`" for _, (exposed, *_) in new[:3]]
    return found
