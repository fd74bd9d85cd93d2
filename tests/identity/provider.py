"""Starts a real authorization server: oidc-provider from npm, installed once under target/."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kit")]
from daemon import ROOT, free_port

PACKAGE = HERE / "credentials"


def start(case, script, *arguments):
    """Runs a script of the package for one test case: returns the issuer. The script gets a port and the arguments."""
    port = free_port()
    command = ["node", script, str(port), *arguments]
    process = subprocess.Popen(
        command, cwd=installed(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    case.addCleanup(process.stdout.close)
    case.addCleanup(process.wait)
    case.addCleanup(process.kill)
    while "listening" not in (line := process.stdout.readline()):
        case.assertTrue(line, "the provider does not start")
    return f"http://127.0.0.1:{port}"


def installed():
    """The package with all it needs."""
    if (PACKAGE / "node_modules").is_dir():
        return PACKAGE
    home = ROOT / "target/credentials"
    shutil.copytree(PACKAGE, home, dirs_exist_ok=True)
    if not (home / "node_modules").is_dir():
        command = ["npm", "ci", "--silent", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)
    return home
