// Locks with npm's `redlock` over `ioredis`, as it is told on stdin; tests/interop/program.rs has the
// words. Usage: redlock.mjs NODE_MODULES MAJOR_VERSION URL...
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const [modules, major, ...urls] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Redis } = require("ioredis");
const library = require(`redlock-${major}`);
const Redlock = library.default ?? library;
const Refusal = library.ExecutionError ?? Redlock.LockError;

const clients = urls.map((url) => new Redis(url, { maxRetriesPerRequest: 1 }));
for (const client of clients) {
  // A server that is gone is what the lock is there for, and no reason to end.
  client.on("error", () => {});
}
const redlock = new Redlock(clients, { retryCount: 0 });
let held;

const lines = createInterface({ input: process.stdin });
let isClosed = false;
lines.once("close", () => {
  isClosed = true;
});

// Of both versions a refusal is an error of a type of its own.
async function granted(action) {
  try {
    held = (await action()) ?? held;
    return "yes";
  } catch (error) {
    if (error instanceof Refusal) return "no";
    throw error;
  }
}

// Its own retries would do, but for version 5: what it won on a minority of servers it keeps until
// its last retry has failed, and so keeps out everybody, itself included, for up to the ttl.
async function wait(keys, ttl) {
  while ((await granted(() => redlock.acquire(keys, ttl))) === "no") {
    if (isClosed) throw new Error("nobody waits for the answer any more");
    await sleep(Math.random() * 20);
  }
  return "yes";
}

// Counts in Redis, where nothing but the lock protects the counter.
async function count(ttl, rounds, key) {
  const [client] = clients;
  let done = 0;
  while (done < rounds || !(await client.exists(`${key}:stop`))) {
    await wait([key], ttl);
    const before = Number(await client.get(`${key}:counter`));
    await sleep(1);
    await client.set(`${key}:counter`, before + 1);
    await client.incr(`${key}:theirs`);
    await redlock.release(held);
    done += 1;
    await sleep(Math.random() * 5);
  }
  return `counted ${done}`;
}

const actions = {
  try: (ttl, ...keys) => granted(() => redlock.acquire(keys, Number(ttl))),
  acquire: (ttl, ...keys) => wait(keys, Number(ttl)),
  extend: (ttl) => granted(() => redlock.extend(held, Number(ttl))),
  release: () => granted(() => redlock.release(held)),
  count: (ttl, rounds, key) => count(Number(ttl), Number(rounds), key),
};

for await (const line of lines) {
  const [word, ...words] = line.split(" ");
  try {
    console.log(await actions[word](...words));
  } catch (error) {
    console.log(`error ${error.name}: ${error.message}`.replaceAll("\n", " "));
  }
}
process.exit(0);
