"""The items of a corpus: JSON lines, and what is generated from them."""

import base64
import itertools
import json

# Part -> where its items are, below the corpus. A part may have several files.
FILES = {
    "http": "http/*.jsonl",
    "jsonrpc": "jsonrpc/*.jsonl",
    "jwt": "jwt/*.jsonl",
    "tools": "tools/*.jsonl",
    "upstream": "upstream/*.jsonl",
    "extras": "extras/*.jsonl",
}


def load(corpus, part):
    """The items of a part. Each remembers the folder that its files are named from."""
    found = []
    for path in sorted(corpus.glob(FILES[part])):
        with open(path, encoding="utf-8") as lines:
            found += [{**json.loads(line), "folder": path.parent} for line in lines if line.strip()]
    return found


def bodies(item):
    """The message bodies of an item, in order."""
    if "body" in item:
        return [item["body"].encode("utf-8", "surrogatepass")]
    if "body_b64" in item:
        return [base64.b64decode(item["body_b64"])]
    recipe = item["gen"]
    if recipe["kind"] == "sequence":
        return [recipe["template"].replace("@@", str(number)).encode() for number in range(recipe["n"])]
    return [GENERATORS[recipe["kind"]](recipe).encode()]


def filled(recipe, text):
    return recipe["template"].replace("@@", text)


def colliding(bits):
    """Names that are all the same to a hash that multiplies by 31."""
    return ("".join(parts) for parts in itertools.product(("Aa", "BB"), repeat=bits))


GENERATORS = {
    "repeat": lambda recipe: recipe["s"] * recipe["n"],
    "replace": lambda recipe: filled(recipe, recipe["fill"] * recipe["n"]),
    "nest": lambda recipe: filled(
        recipe, recipe["open"] * recipe["n"] + recipe.get("inner", "") + recipe["close"] * recipe["n"]
    ),
    "batch": lambda recipe: "[" + ",".join([recipe["of"]] * recipe["n"]) + "]",
    "keys": lambda recipe: filled(recipe, ",".join(f'"k{number}":0' for number in range(recipe["n"]))),
    "colliding_keys": lambda recipe: filled(
        recipe, ",".join(f'"{key}":0' for key in colliding(recipe["bits"]))
    ),
    "pad": lambda recipe: " " * recipe["n"] + recipe["body"] + " " * 16,
}
