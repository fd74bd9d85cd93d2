"""Load at a fixed pace: many connections of one asker, each request sent when it is due, whatever became of the others."""

import json
import threading
import time


class Heard:
    """What calls got: how many were admitted and refused, what else came, how long each took, and when."""

    def __init__(self):
        self.admitted = self.refused = 0
        self.others, self.seconds, self.sent = [], [], []

    def add(self, other):
        self.admitted, self.refused = self.admitted + other.admitted, self.refused + other.refused
        self.others += other.others
        self.seconds += other.seconds
        self.sent += other.sent
        return self

    @property
    def offered(self):
        return len(self.sent)

    def note(self, sent, answer, tag):
        """One answer to a call that says this tag again."""
        self.sent.append(sent)
        self.seconds.append(time.monotonic() - sent)
        result = json.loads(answer).get("result") or {}
        error = (result.get("_meta") or {}).get("portcullis/error") or {}
        if result.get("isError") and error.get("retry_after", 0) >= 1:
            self.refused += 1
        elif not result.get("isError") and f'"{tag}"' in str(result.get("content")):
            self.admitted += 1
        else:
            self.others.append(answer[:300])


def put_on(clients, name, rate, seconds, mark):
    """Calls of the tool `name`, `rate` a second in all, over open clients; each with arguments of its own."""
    heard = [Heard() for _ in clients]
    begin = time.monotonic() + 0.05

    def work(place, client):
        for turn in range(int(rate * seconds / len(clients))):
            due = begin + (turn * len(clients) + place) / rate
            early = due - time.monotonic()
            if early > 0:
                time.sleep(early)
            elif time.monotonic() > begin + seconds:
                return
            tag, sent = f"{mark}-{place}-{turn}", time.monotonic()
            try:
                answer = client.ask("tools/call", {"name": name, "arguments": {"tag": tag}})
            except OSError as error:
                heard[place].others.append(repr(error))
                return
            heard[place].note(sent, answer, tag)

    workers = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(clients)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(seconds + 60)
    total = Heard()
    for one in heard:
        total.add(one)
    return total
