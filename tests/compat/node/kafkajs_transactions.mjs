// kafkajs copies a topic in transactions with the offsets that it has read, aborts one, and fences an older producer.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { forKafkajs } from "./login.mjs";

const [modules, bootstrap, name] = process.argv.slice(2);
const { Kafka, logLevel } = createRequire(`${modules}/`)("kafkajs");
const kafka = new Kafka({ clientId: name, brokers: bootstrap.split(","), ...forKafkajs, logLevel: logLevel.NOTHING });
const admin = kafka.admin();
const RECORDS = 120;
const AT_ONCE = 20;
const input = Array.from({ length: RECORDS }, (_, number) => `${number}`.padStart(3, "0"));
const source = `${name}-source`;
const target = `${name}-target`;

// kafkajs numbers the sequences of one request at a time.
const transactional = (transactionalId) => kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });

const until = async (done, what) => {
  const end = Date.now() + 30000;
  while (!(await done())) {
    assert(Date.now() < end, `not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

async function read(topic, count, readUncommitted) {
  const consumer = kafka.consumer({ groupId: `${topic}-${readUncommitted}-${count}`, readUncommitted, maxWaitTimeInMs: 200 });
  const got = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
  await until(() => got.length >= count, `${count} records of ${topic}`);
  await consumer.disconnect();
  return got;
}

// An ended transaction's offsets are there once its marker is.
async function committed() {
  const [offsets] = await admin.fetchOffsets({ groupId: name, topics: [source] });
  return Number(offsets.partitions[0].offset);
}

async function copy() {
  const producer = transactional(name);
  await producer.connect();
  let at = 0;
  let aborted = false;
  while (at < RECORDS) {
    const transaction = await producer.transaction();
    const values = input.slice(at, at + AT_ONCE);
    await transaction.send({ topic: target, messages: values.map((value) => ({ value, partition: 0 })) });
    const topics = [{ topic: source, partitions: [{ partition: 0, offset: `${at + values.length}` }] }];
    await transaction.sendOffsets({ consumerGroupId: name, topics });
    if (at === 2 * AT_ONCE && !aborted) {
      await transaction.abort();
      aborted = true;
    } else {
      await transaction.commit();
      at += values.length;
    }
    await until(async () => (await committed()) === at, `offset ${at}`);
  }
  await producer.disconnect();
  assert.deepEqual(await read(target, RECORDS, false), input);
  assert.equal((await read(target, RECORDS + AT_ONCE, true)).length, RECORDS + AT_ONCE);
}

async function fence() {
  const topic = `${name}-fenced`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  const older = transactional(topic);
  await older.connect();
  const open = await older.transaction();
  await open.send({ topic, messages: [{ value: "of the older", partition: 0 }] });
  const newer = transactional(topic);
  await newer.connect();
  const transaction = await newer.transaction(); // only now does kafkajs ask for an epoch
  await assert.rejects(open.commit(), (error) => ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"].includes(error.type));
  await transaction.send({ topic, messages: [{ value: "of the newer", partition: 0 }] });
  await transaction.commit();
  assert.deepEqual(await read(topic, 1, false), ["of the newer"]);
  await newer.disconnect();
  await older.disconnect();
}

await admin.connect();
await admin.createTopics({ topics: [source, target].map((topic) => ({ topic, numPartitions: 1 })), waitForLeaders: true });
const plain = kafka.producer();
await plain.connect();
await plain.send({ topic: source, messages: input.map((value) => ({ value, partition: 0 })) });
await plain.disconnect();
assert.deepEqual(await read(source, RECORDS, false), input);
await copy();
await fence();
await admin.disconnect();
console.log("all well");
