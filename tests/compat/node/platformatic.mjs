// @platformatic/kafka against a broker: a client that speaks the flexible versions only.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { forPlatformatic } from "./login.mjs";

const [modules, bootstrap, name, brokers] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("@platformatic/kafka");
const { Admin, Consumer, Producer, ListOffsetTimestamps, stringDeserializers, stringSerializers } = await import(pathToFileURL(entry));
const base = { clientId: name, bootstrapBrokers: bootstrap.split(","), ...forPlatformatic };
const admin = new Admin(base);

async function take(consumer, options, count) {
  const stream = await consumer.consume({ autocommit: false, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTime: 200, ...options });
  const got = [];
  for await (const message of stream) {
    got.push(message);
    if (got.length === count) break;
  }
  await stream.close();
  return got;
}

async function codec(compression) {
  const topic = `${name}-${compression}`;
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: Number(brokers) });
  const producer = new Producer({ ...base, idempotent: true, serializers: stringSerializers });
  const messages = Array.from({ length: 100 }, (_, number) => ({
    topic, partition: 0, key: `key-${number}`, value: `value-${number}`, headers: { number: `${number}` }, timestamp: BigInt(1700000000000 + number),
  }));
  await producer.send({ messages, compression, acks: -1 });
  await producer.close();
  const consumer = new Consumer({ ...base, groupId: topic, deserializers: stringDeserializers });
  const got = await take(consumer, { topics: [topic], mode: "earliest" }, 100);
  assert.deepEqual(got.map((each) => each.value), messages.map((each) => each.value));
  assert.equal(got[7].key, "key-7");
  assert.equal(got[7].headers.get("number"), "7");
  assert.equal(got[7].timestamp, 1700000000007n);
  await consumer.commit({ offsets: [{ topic, partition: 0, offset: 60n, leaderEpoch: 0 }] });
  await consumer.close(true);
  const again = new Consumer({ ...base, groupId: topic, deserializers: stringDeserializers });
  assert.equal((await take(again, { topics: [topic], mode: "committed", fallbackMode: "fail" }, 1))[0].offset, 60n);
  const listed = await again.listOffsets({ topics: [topic] });
  assert.equal(listed.get(topic)[0], 100n);
  const found = await again.listOffsetsWithTimestamps({ topics: [topic], timestamp: 1700000000030n });
  assert.equal(found.get(topic).get(0).offset, 30n);
  const sought = await take(again, { topics: [topic], mode: "manual", offsets: [{ topic, partition: 0, offset: 42n }] }, 1);
  assert.equal(sought[0].offset, 42n);
  await again.close(true);
}

async function administration() {
  const topic = `${name}-admin`;
  await admin.createTopics({ topics: [topic], partitions: 2, replicas: Number(brokers), configs: [{ name: "retention.ms", value: "3600000" }] });
  assert((await admin.listTopics()).includes(topic));
  await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] });
  const metadata = await admin.metadata({ topics: [topic], forceUpdate: true });
  assert.equal(metadata.topics.get(topic).partitionsCount, 3);
  const groups = await admin.listGroups();
  assert(groups.has(`${name}-none`));
  await admin.deleteTopics({ topics: [topic] });
  assert(!(await admin.listTopics()).includes(topic));
}

for (const compression of ["none", "gzip", "snappy", "lz4", "zstd"]) await codec(compression);
await administration();
await admin.close();
console.log("all well");
