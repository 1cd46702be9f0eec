"""kazoo's locks, on command. Arguments: servers, path of the lock, session timeout in milliseconds; "patterns", "read" or "write"
for Lock, ReadLock and WriteLock with extra_lock_patterns, none for a Lock with Curator's names.

Requests, one a line: "acquire MILLIS" is answered "held" or "refused"; "release" is answered "released".
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class CuratorLock(Lock):
    """The two lines that give kazoo's places the names of Curator's and ours."""

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


def make_lock(client, path, kind):
    if kind == "patterns":
        return Lock(client, path, extra_lock_patterns=["-lock-"])
    if kind == "read":
        return ReadLock(client, path, extra_lock_patterns=["-__WRIT__"])
    if kind == "write":
        return WriteLock(client, path, extra_lock_patterns=["-__WRIT__", "-__READ__"])
    return CuratorLock(client, path)


servers, path, session = sys.argv[1:4]
client = KazooClient(hosts=servers, timeout=int(session) / 1000)
client.start()
lock = make_lock(client, path, sys.argv[4] if len(sys.argv) > 4 else "")
print("ready", flush=True)
for request in sys.stdin:
    print(answer(lock, request.split()), flush=True)
client.stop()
