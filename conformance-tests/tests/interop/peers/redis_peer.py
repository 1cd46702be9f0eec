"""redis-py's lock, on command. Arguments: server, key of the lock, lease in milliseconds.

Requests, one a line: "acquire MILLIS" is answered "held" or "refused"; "release" is answered "released".
"""

import sys

from redis import Redis


def answer(lock, words):
    if words[0] == "acquire":
        return "held" if lock.acquire(blocking_timeout=int(words[1]) / 1000) else "refused"
    lock.release()
    return "released"


server, key, lease = sys.argv[1:]
lock = Redis.from_url(server).lock(key, timeout=int(lease) / 1000)
print("ready", flush=True)
for request in sys.stdin:
    print(answer(lock, request.split()), flush=True)
