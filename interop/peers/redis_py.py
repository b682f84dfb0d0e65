"""Locks with redis-py's `Lock`, as it is told on stdin; tests/interop/program.rs has the words.

Usage: redis_py.py URL
"""

import random
import sys
import time

import redis
from redis.exceptions import LockNotOwnedError

client = redis.Redis.from_url(sys.argv[1])
held = None


def lock(ttl, key):
    # Without a timeout the lock lives for ever, which is the library's default.
    timeout = int(ttl) / 1000 or None
    return client.lock(key, timeout=timeout, sleep=0.01)


def acquire(blocking, ttl, key):
    global held
    wanted = lock(ttl, key)
    if not wanted.acquire(blocking=blocking):
        return "no"
    held = wanted
    return "yes"


def owned(action):
    try:
        action()
        return "yes"
    except LockNotOwnedError:
        return "no"


def count(ttl, rounds, key):
    """Counts in Redis, where nothing but the lock protects the counter."""
    done = 0
    while done < int(rounds) or not client.exists(f"{key}:stop"):
        with lock(ttl, key):
            before = int(client.get(f"{key}:counter") or 0)
            time.sleep(0.001)
            client.set(f"{key}:counter", before + 1)
            client.incr(f"{key}:theirs")
        done += 1
        time.sleep(random.random() * 0.005)
    return f"counted {done}"


actions = {
    "try": lambda ttl, key: acquire(False, ttl, key),
    "acquire": lambda ttl, key: acquire(True, ttl, key),
    "extend": lambda ttl: owned(lambda: held.extend(int(ttl) / 1000, replace_ttl=True)),
    "release": lambda: owned(lambda: held.release()),
    "count": count,
}

for line in sys.stdin:
    word, *words = line.split()
    try:
        answer = actions[word](*words)
    except Exception as error:
        answer = f"error {type(error).__name__}: {error}".replace("\n", " ")
    print(answer, flush=True)
