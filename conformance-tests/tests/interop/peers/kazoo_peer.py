"""kazoo's lock, on command. Arguments: servers, path of the lock, session time-out in milliseconds.

Requests, one a line: "acquire MILLIS" is answered "held" or "refused"; "release" is answered "released".
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock


class CuratorLock(Lock):
    """The two lines that make kazoo's places look like Curator's, and ours."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def answer(lock, words):
    if words[0] == "acquire":
        try:
            return "held" if lock.acquire(timeout=int(words[1]) / 1000) else "refused"
        except LockTimeout:
            return "refused"
    lock.release()
    return "released"


servers, path, session = sys.argv[1:]
client = KazooClient(hosts=servers, timeout=int(session) / 1000)
client.start()
lock = CuratorLock(client, path)
print("ready", flush=True)
for request in sys.stdin:
    print(answer(lock, request.split()), flush=True)
client.stop()
