"""Parts whose controls the product does not have yet: their items are told apart, and skipped with the reason."""


def tools(items, report):
    for item in items:
        report.skip(item, "needs pins: no definition is pinned yet")


def upstream(items, report):
    for item in items:
        report.skip(item, "needs a stand with hostile upstreams")


def extras(items, report):
    for item in items:
        report.skip(item, WANTED.get(item["id"].split("-")[0], "nothing looks at this kind of item"))


WANTED = {
    "S": "needs rules for addresses of upstreams: there are none yet",
    "R": "needs policies: filters are the only place of expressions yet",
    "A": "needs approvals: no person is asked yet",
    "C": "needs rules for commands: the configuration tells nothing of shells yet",
}
