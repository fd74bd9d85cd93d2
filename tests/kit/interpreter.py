"""A Python that has `cryptography`: made once under target/, and a runner that needs it runs itself again in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[1] / "target/runner"
REQUIREMENTS = HERE / "requirements.txt"


def with_cryptography():
    """Returns where `cryptography` can be imported; else replaces this process by one where it can."""
    try:
        import cryptography
    except ImportError:
        python = HOME / "bin/python"
        if Path(sys.executable) == python:
            raise
        os.execv(installed(python), [str(python), *sys.argv])


def installed(python):
    lock = HOME / "requirements.installed"
    if not lock.exists() or lock.read_bytes() != REQUIREMENTS.read_bytes():
        shutil.rmtree(HOME, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(HOME)],
            [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(REQUIREMENTS)],
        ):
            # Installers talk on stderr: stdout belongs to the result.
            subprocess.run(command, check=True, stdout=sys.stderr)
        shutil.copy(REQUIREMENTS, lock)
    return python
