// @platformatic/kafka copies a topic in transactions with the offsets of its consumer, aborts one, and is fenced.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { forPlatformatic } from "./login.mjs";

const [modules, bootstrap, name, brokers] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("@platformatic/kafka");
const { Admin, Consumer, Producer, FetchIsolationLevels, stringDeserializers, stringSerializers } = await import(pathToFileURL(entry));
const base = { clientId: name, bootstrapBrokers: bootstrap.split(","), ...forPlatformatic };
const reading = { ...base, deserializers: stringDeserializers, autocommit: false, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTime: 200 };
const writing = { ...base, idempotent: true, serializers: stringSerializers };
const admin = new Admin(base);
const RECORDS = 120;
const AT_ONCE = 20;
const input = Array.from({ length: RECORDS }, (_, number) => `${number}`.padStart(3, "0"));
const source = `${name}-source`;
const target = `${name}-target`;

const until = async (done, what) => {
  const end = Date.now() + 30000;
  while (!(await done())) {
    assert(Date.now() < end, `not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

// An ended transaction's offsets are there once its marker is.
async function committed(consumer) {
  const offsets = await consumer.listCommittedOffsets({ topics: [{ topic: source, partitions: [0] }] });
  return Number(offsets.get(source)[0]);
}

async function read(topic, count, isolationLevel) {
  const consumer = new Consumer({ ...reading, groupId: `${topic}-${isolationLevel}-${count}`, isolationLevel });
  const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
  const got = [];
  for await (const message of stream) {
    got.push(message.value);
    if (got.length === count) break;
  }
  await consumer.close(true);
  return got;
}

// Each transaction copies a run of records and commits the offset of the last of them. The group is a classic one: of
// the other kind this client sends generation 0, which is refused (22, on Apache Kafka too).
async function copy() {
  const consumer = new Consumer({ ...reading, groupId: name });
  const producer = new Producer({ ...writing, transactionalId: name });
  const stream = await consumer.consume({ topics: [source], mode: "earliest" });
  let messages = [];
  let at = 0;
  for await (const message of stream) {
    messages.push(message);
    if (messages.length < AT_ONCE) continue;
    for (const ends of at === 2 * AT_ONCE ? ["abort", "commit"] : ["commit"]) {
      const transaction = await producer.beginTransaction();
      await transaction.addConsumer(consumer);
      await transaction.send({ messages: messages.map(({ value }) => ({ topic: target, partition: 0, value })), acks: -1 });
      await transaction.addOffset(messages.at(-1));
      await transaction[ends]();
      if (ends === "commit") at += messages.length;
      await until(async () => (await committed(consumer)) === at, `offset ${at} after ${ends}`);
    }
    messages = [];
    if (at === RECORDS) break;
  }
  await producer.close();
  await consumer.close(true);
  assert.deepEqual(await read(target, RECORDS, FetchIsolationLevels.READ_COMMITTED), input);
  assert.equal((await read(target, RECORDS + AT_ONCE, FetchIsolationLevels.READ_UNCOMMITTED)).length, RECORDS + AT_ONCE);
}

async function fence() {
  const topic = `${name}-fenced`;
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: Number(brokers) });
  const older = new Producer({ ...writing, transactionalId: topic });
  const open = await older.beginTransaction();
  await open.send({ messages: [{ topic, partition: 0, value: "of the older" }], acks: -1 });
  const [producerId, producerEpoch] = [older.producerId, older.producerEpoch];
  const newer = new Producer({ ...writing, transactionalId: topic });
  const transaction = await newer.beginTransaction({ producerId, producerEpoch });
  await transaction.send({ messages: [{ topic, partition: 0, value: "of the newer" }], acks: -1 });
  await assert.rejects(open.commit());
  await transaction.commit();
  assert.deepEqual(await read(topic, 1, FetchIsolationLevels.READ_COMMITTED), ["of the newer"]);
  await older.close();
  await newer.close();
}

await admin.createTopics({ topics: [source, target], partitions: 1, replicas: Number(brokers) });
const plain = new Producer(writing);
await plain.send({ messages: input.map((value) => ({ topic: source, partition: 0, value })), acks: -1 });
await plain.close();
await copy();
await fence();
await admin.close();
console.log("all well");
