"""Configurations that start what nobody meant, or that others can write: what `check` says, and what is run."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import Daemon, binary

FAULTY = 78  # the exit code of a configuration that is not fit to run
LOADED_WITHIN_S = 2
MANY, LARGE = 8000, 20 << 20
HARMLESS, AWAY = {"command": "/bin/cat"}, {"url": "http://127.0.0.1:9/mcp"}


def run(items, report):
    for item in items:
        judge = JUDGES.get(item["id"])
        if judge is None:
            report.skip(item, "nothing looks at this kind of item")
            continue
        with tempfile.TemporaryDirectory(prefix="portcullis-attacks-") as folder:
            report(item, [fault for fault in judge(item["config"], Path(folder)) if fault])


class Checked:
    """What `portcullis check` says of a tenant's upstream, or of a whole text."""

    def __init__(self, folder, upstream=None, text=None, main=None, cwd=None, env=None):
        (folder / "tenants").mkdir(exist_ok=True)
        self.main, self.tenant = folder / "portcullis.yaml", folder / "tenants/acme.yaml"
        if not self.main.exists():
            self.main.write_text(main or "keepalive: 15s\n")
        document = {"tenant": "acme", "upstreams": {"x": upstream}}
        if not self.tenant.exists():
            self.tenant.write_text(text if text is not None else json.dumps(document))
        began = time.monotonic()
        command = [binary(), "check", "--config", str(self.main)]
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)
        self.code, self.said = done.returncode, done.stdout + done.stderr
        self.seconds = time.monotonic() - began

    def refused(self, *words):
        missing = [word for word in words if word not in self.said]
        return self.code != FAULTY and f"exit code {self.code}: {self.said[:300]}" or missing and (
            f"{missing} not said: {self.said[:300]}"
        )


def program(folder, name="server"):
    path = folder / name
    path.write_text(f"#!/bin/sh\ntouch {folder}/ran\nexec sleep 60\n")
    path.chmod(0o755)
    return path


def shell(config, folder):
    checked = Checked(folder, config)
    yield "no word about a shell" if "shell" not in checked.said else None


def relative(config, folder):
    """A program of that name where the gateway is started, and none where the file lies."""
    start = folder / "start"
    start.mkdir()
    program(start)
    yield Checked(folder, config, cwd=start).refused("was not found")
    program(folder / "tenants")
    checked = Checked(folder, config, cwd=start)
    yield checked.code and f"it is not found beside its file: {checked.said[:300]}"


def on_the_path(config, folder):
    bins = folder / "bin"
    bins.mkdir()
    found = program(bins)
    path = f"{bins}:{os.environ['PATH']}"
    with Daemon(folder, {"x": config}, env={"PATH": path}) as gateway:
        end = time.monotonic() + 5
        while str(found) not in gateway.log_text() and time.monotonic() < end:
            time.sleep(0.05)
        yield str(found) not in gateway.log_text() and "its absolute path is not in the log"


def refused(*words):
    def judge(config, folder):
        yield Checked(folder, config).refused(*words)

    return judge


def many_arguments(config, folder):
    yield Checked(folder, {**config, "args": ["a"] * 100_000}).refused()


def writable(config, folder):
    checked = Checked(folder, HARMLESS)
    yield checked.code and f"refused as it is: {checked.said[:300]}"
    for path in (checked.tenant, checked.main):
        for mode in (int(config["mode"], 8), 0o664):
            path.chmod(mode)
            yield Checked(folder).refused("write")
        path.chmod(0o600)
    with Daemon(folder / "run", {"x": AWAY}) as gateway:
        yield gateway.process.poll() is not None and "it does not start as it is"
    gateway.config.chmod(int(config["mode"], 8))
    gateway.start(patience=3)
    code = gateway.process.poll()
    gateway.stop()
    yield code != FAULTY and f"it starts all the same: {code}"


def linked(_config, folder):
    open_to_all = folder / "open"
    open_to_all.mkdir()
    (folder / "tenants").mkdir()
    document = {"tenant": "acme", "upstreams": {"x": HARMLESS}}
    (open_to_all / "acme.yaml").write_text(json.dumps(document))
    (folder / "tenants/acme.yaml").symlink_to(open_to_all / "acme.yaml")
    checked = Checked(folder)
    yield checked.code and f"a link alone is no fault: {checked.said[:300]}"
    open_to_all.chmod(0o777)
    yield Checked(folder).refused("write")


def linked_record(_config, folder):
    """The file of the record leads elsewhere."""
    with Daemon(folder, {"x": AWAY}) as gateway:
        yield gateway.process.poll() is not None and "it does not start as it is"
    [file] = [path for path in (folder / "state/audit").glob("**/*") if path.is_file()]
    file.unlink()
    target = folder / "elsewhere"
    target.write_text("")
    target.chmod(0o644)
    file.symlink_to(target)
    gateway.start(patience=3)
    code = gateway.process.poll()
    gateway.stop()
    yield code in (None, 0) and f"it starts: {gateway.log_text()[-300:]}"
    yield target.read_text() and "the record was written there"
    yield target.stat().st_mode & 0o777 != 0o644 and "its mode was changed"


def text(*words):
    def judge(config, folder):
        whole = 'tenant: acme\nupstreams: { x: { command: /bin/cat } }\n' + config["yaml"] + "\n"
        yield Checked(folder, text=whole).refused(*words)

    return judge


def twice(config, folder):
    checked = Checked(folder, text=f"tenant: acme\nupstreams:\n  x: {{ command: /bin/cat }}\n{config['yaml']}\n")
    yield checked.refused("duplicate")
    yield not ("4" in checked.said and "5" in checked.said) and f"both lines are not named: {checked.said[:400]}"


def empty_rules(config, folder):
    (folder / "rules.yaml").write_text(config["yaml"])
    whole = "tenant: acme\nupstreams: { x: { command: /bin/cat } }\npolicies: [../rules.yaml]\n"
    yield Checked(folder, text=whole).refused()


def large(_config, folder):
    tenants = "".join(f"# tenant {number}: {'x' * (LARGE // MANY)}\n" for number in range(MANY))
    checked = Checked(folder, text=f"tenant: acme\nupstreams: {{ x: {{ command: /bin/cat }} }}\n{tenants}")
    yield checked.seconds > LOADED_WITHIN_S and f"it took {checked.seconds:.1f} s"
    yield checked.code not in (0, FAULTY) and f"exit code {checked.code}"


JUDGES = {
    "C-EXEC-001": shell,
    "C-EXEC-003": relative,
    "C-EXEC-004": on_the_path,
    "C-EXEC-006": refused("tenants/acme.yaml"),
    "C-EXEC-007": many_arguments,
    "C-ENV-001": refused("belongs to the upstream"),
    "C-ENV-003": refused("unknown key"),
    "C-FILE-001": writable,
    "C-FILE-003": linked,
    "C-FILE-004": linked_record,
    "C-FILE-006": twice,
    "C-FILE-007": text("unknown key"),
    "C-FILE-009": empty_rules,
    "C-FILE-011": large,
}
