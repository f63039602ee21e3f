// @platformatic/kafka in a group of KIP-848: members share partitions, one leaves, another goes on where it had been.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { forPlatformatic } from "./login.mjs";

const [modules, bootstrap, name, brokers] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("@platformatic/kafka");
const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = await import(pathToFileURL(entry));
const base = { clientId: name, bootstrapBrokers: bootstrap.split(","), ...forPlatformatic };
const admin = new Admin(base);
const PARTITIONS = 4;
const EACH = 25;

const until = async (done, what) => {
  const end = Date.now() + 30000;
  while (!(await done())) {
    assert(Date.now() < end, `not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

// A member that notes what it reads and commits it.
async function member(seen) {
  const consumer = new Consumer({ ...base, groupId: name, groupProtocol: "consumer", deserializers: stringDeserializers, maxWaitTime: 200 });
  const stream = await consumer.consume({ autocommit: false, topics: [name], mode: "committed", fallbackMode: "earliest" });
  stream.on("data", (message) => {
    seen.push(message.value);
    message.commit();
  });
  const owned = () => (consumer.assignments ?? []).flatMap((each) => each.partitions);
  return { consumer, owned };
}

async function produce(label) {
  const producer = new Producer({ ...base, idempotent: true, serializers: stringSerializers });
  const messages = Array.from({ length: PARTITIONS * EACH }, (_, number) => ({ topic: name, partition: number % PARTITIONS, value: `${label}-${number}` }));
  await producer.send({ messages, acks: -1 });
  await producer.close();
  return messages.map((each) => each.value);
}

async function committed(consumer) {
  const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition);
  const offsets = (await consumer.listCommittedOffsets({ topics: [{ topic: name, partitions }] })).get(name);
  return offsets.map(Number);
}

await admin.createTopics({ topics: [name], partitions: PARTITIONS, replicas: Number(brokers) });
const seen = [];
const first = await member(seen);
await until(() => first.owned().length === PARTITIONS, "all partitions of the only member");
const before = await produce("before");
await until(() => seen.length === before.length, "all records by the only member");
const all = (count) => async () => (await committed(first.consumer)).every((offset) => offset === count);
await until(all(EACH), "all offsets committed");

const second = await member(seen);
await until(() => first.owned().length === 2 && second.owned().length === 2, "two partitions each");
assert.equal(new Set([...first.owned(), ...second.owned()]).size, PARTITIONS);
assert.equal((await admin.listGroups({ types: ["consumer"] })).get(name)?.groupType, "consumer");
const between = await produce("between");
await until(() => seen.length === before.length + between.length, "all records by two members");
await until(all(2 * EACH), "all offsets of two members committed");

await second.consumer.close(true);
await until(() => first.owned().length === PARTITIONS, "all partitions of the member that stayed");
const after = await produce("after");
await until(() => seen.length === before.length + between.length + after.length, "all records by the member that stayed");
assert.deepEqual(seen.toSorted(), [...before, ...between, ...after].toSorted());
await first.consumer.close(true);
await admin.close();
console.log("all well");
