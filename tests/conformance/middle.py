#!/usr/bin/env python3
"""What the suite takes for a client: the client behind a gateway whose upstream is the suite's server. middle.py URL"""

import os
import subprocess
import sys
import tempfile

import suite
import wiring


def main():
    url, bare = sys.argv[-1], "--prefixed" not in sys.argv
    command = [str(suite.NODE), str(suite.HERE / "client.mjs")]
    environment = {**os.environ, "CONFORMANCE_MODULES": str(suite.NPM)}
    if "--direct" in sys.argv:
        return subprocess.run([*command, url], env=environment).returncode
    with tempfile.TemporaryDirectory(prefix="portcullis-conformance-") as folder:
        with wiring.gateway(folder, {"url": url}, bare) as gateway:
            return subprocess.run([*command, gateway], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
