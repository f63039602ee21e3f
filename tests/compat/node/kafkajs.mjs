// kafkajs against a broker: every codec that it brings, groups, seeking, offsets, administration.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { forKafkajs } from "./login.mjs";

const [modules, bootstrap, name, brokers] = process.argv.slice(2);
const { Kafka, CompressionTypes, logLevel } = createRequire(`${modules}/`)("kafkajs");
const kafka = new Kafka({ clientId: name, brokers: bootstrap.split(","), ...forKafkajs, logLevel: logLevel.NOTHING });
const admin = kafka.admin();

const until = async (done, what) => {
  const end = Date.now() + 30000;
  while (!(await done())) {
    assert(Date.now() < end, `not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

async function codec(label, compression) {
  const topic = `${name}-${label}`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = Array.from({ length: 100 }, (_, number) => ({
    key: `key-${number}`, value: `value-${number}`, headers: { number: `${number}` }, timestamp: `${1700000000000 + number}`,
  }));
  await producer.send({ topic, compression, messages });
  await producer.disconnect();
  const got = [];
  const consumer = kafka.consumer({ groupId: topic, sessionTimeout: 6000, heartbeatInterval: 500 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => void got.push(message) });
  await until(() => got.length >= 100, `100 messages of ${label}`);
  await consumer.disconnect();
  assert.deepEqual(got.map((each) => each.value.toString()), messages.map((each) => each.value));
  assert.equal(got[7].key.toString(), "key-7");
  assert.equal(got[7].headers.number.toString(), "7");
  assert.equal(got[7].timestamp, "1700000000007");
}

async function groups() {
  const topic = `${name}-groups`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 4 }], waitForLeaders: true });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [0, 1, 2, 3].map((partition) => ({ partition, value: `p${partition}` })) });
  const seen = [];
  const members = [];
  for (const number of [0, 1]) {
    const consumer = kafka.consumer({ groupId: topic, sessionTimeout: 6000, heartbeatInterval: 300 });
    const member = { consumer, owned: [] };
    consumer.on(consumer.events.GROUP_JOIN, (event) => { member.owned = event.payload.memberAssignment[topic] ?? []; });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ partition }) => void seen.push(partition) });
    members.push(member);
    await until(() => member.owned.length > 0, `partitions of member ${number}`);
  }
  await until(() => members.every((each) => each.owned.length === 2), "two partitions each");
  await until(() => new Set(seen).size === 4, "a record of each partition");
  const described = async (state, count) => {
    const [group] = (await admin.describeGroups([topic])).groups;
    return group.state === state && group.members.length === count;
  };
  await until(() => described("Stable", 2), "a stable group of two");
  await Promise.all(members.map((each) => each.consumer.disconnect()));
  const left = () => until(() => described("Empty", 0), "an empty group"); // a member says once that it leaves
  await left();
  await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 2, offset: "0" }] });
  const [offsets] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
  assert.equal(offsets.partitions.find((each) => each.partition === 2).offset, "0");
  await left();
  await admin.deleteGroups([topic]);
  await producer.disconnect();
}

async function seeking() {
  const topic = `${name}-seeking`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  const producer = kafka.producer();
  await producer.connect();
  const messages = Array.from({ length: 50 }, (_, number) => ({ value: `${number}`, timestamp: `${1700000000000 + number}` }));
  await producer.send({ topic, messages });
  await producer.disconnect();
  assert.equal((await admin.fetchTopicOffsets(topic))[0].high, "50");
  assert.equal((await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000030))[0].offset, "30");
  const got = [];
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => void got.push(message.offset) });
  consumer.seek({ topic, partition: 0, offset: "42" });
  await until(() => got.length >= 8, "the end");
  await consumer.disconnect();
  assert.equal(got[0], "42");
}

async function administration() {
  const topic = `${name}-admin`;
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: [{ name: "retention.ms", value: "3600000" }] }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  assert.equal(metadata.topics[0].partitions.length, 3);
  const configs = await admin.describeConfigs({ includeSynonyms: true, resources: [{ type: 2, name: topic }] });
  const entry = configs.resources[0].configEntries.find((each) => each.configName === "retention.ms");
  assert.equal(entry.configValue, "3600000");
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: "retention.ms", value: "1000" }] }] });
  assert((await admin.listTopics()).includes(topic));
  const { length } = (await admin.describeCluster()).brokers;
  assert(length >= 1 && length <= Number(brokers));
  await admin.deleteTopics({ topics: [topic] });
  assert(!(await admin.listTopics()).includes(topic));
}

await admin.connect();
await codec("none", CompressionTypes.None);
await codec("gzip", CompressionTypes.GZIP);
await groups();
await seeking();
await administration();
await admin.disconnect();
console.log("all well");
