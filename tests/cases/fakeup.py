"""Dumb stdio end of a fake upstream: pumps bytes between stdin/stdout and the runner."""

import sys, os, socket, json, base64, time, threading


def main():
    port = int(sys.argv[1])
    name = sys.argv[2]
    s = socket.create_connection(("127.0.0.1", port))
    lock = threading.Lock()

    def tell(o):
        with lock:
            s.sendall(json.dumps(o).encode() + b"\n")

    tell({"hello": name, "pid": os.getpid(), "args": sys.argv[3:], "env": dict(os.environ)})
    stay = [False]

    def pump():
        try:
            while True:
                b = os.read(0, 65536)
                if not b:
                    break
                tell({"in": base64.b64encode(b).decode()})
        except OSError:
            pass
        try:
            tell({"eof": 1})
        except OSError:
            pass
        if not stay[0]:
            time.sleep(0.05)
            os._exit(0)

    f = s.makefile("rb")

    def out(b):
        try:
            while b:
                n = os.write(1, b)
                b = b[n:]
        except OSError:
            pass

    started = False
    for line in f:
        o = json.loads(line)
        if "go" in o and not started:
            started = True
            threading.Thread(target=pump, daemon=True).start()
        if "w" in o:
            b = base64.b64decode(o["w"])
            n = o.get("chunk")
            if n:
                for i in range(0, len(b), n):
                    out(b[i : i + n])
                    time.sleep(0.005 if n > 8 else 0.0005)
            else:
                out(b)
        if "flood" in o:
            blk = b"x" * 65536
            left = o["flood"]
            while left > 0:
                out(blk[:left])
                left -= len(blk)
        if "grandchild" in o:
            stay[0] = True
            import subprocess

            p = subprocess.Popen(
                ["sleep", "600"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            tell({"grand": p.pid})
        if "stderr" in o:
            sys.stderr.write(o["stderr"] + "\n")
            sys.stderr.flush()
        if "exit" in o:
            os._exit(o["exit"])
    if not stay[0]:
        os._exit(0)
    time.sleep(600)


main()
