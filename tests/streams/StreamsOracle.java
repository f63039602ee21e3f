import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

/** Runs topologies in Kafka's own test driver: a request in JSON a line in, an answer a line out. */
public class StreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final ValueJoiner<String, String, String> PAIR = (l, r) -> l + "," + r;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Throwable e) {
                answer = JSON.createObjectNode().put("error", e + " / " + e.getCause());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void answer(JsonNode ask, ObjectNode answer) throws Exception {
        JsonNode wanted = ask.get("topology");
        Topology topology = wanted.isArray() ? StreamsPrograms.built(wanted) : topology(wanted.asText());
        answer.put("describe", topology.describe().toString());
        Properties config = new Properties();
        config.put("application.id", "oracle");
        config.put("bootstrap.servers", "none:1");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        config.put("statestore.cache.max.bytes", "0");
        config.put("dsl.store.suppliers.class", BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class.getName());
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        ArrayNode rows = answer.putArray("outputs");
        Set<String> topics = wanted.isArray() ? StreamsPrograms.outputs(wanted) : Set.of("out");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
            Map<String, TestOutputTopic<String, String>> outputs = new TreeMap<>();
            for (String name : topics) {
                outputs.put(name, driver.createOutputTopic(name, new StringDeserializer(), new StringDeserializer()));
            }
            for (JsonNode row : ask.get("input")) {
                var input = driver.createInputTopic(row.get(0).asText(), new StringSerializer(), new StringSerializer());
                input.pipeInput(new TestRecord<>(text(row.get(1)), text(row.get(2)), new RecordHeaders(), row.get(3).asLong()));
                for (var output : outputs.entrySet()) {
                    for (TestRecord<String, String> made : output.getValue().readRecordsToList()) {
                        ArrayNode shown = rows.addArray().add(made.key()).add(made.value()).add(made.timestamp());
                        if (wanted.isArray()) shown.add(output.getKey());
                    }
                }
            }
        }
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static Topology topology(String name) {
        StreamsBuilder b = new StreamsBuilder();
        switch (name) {
            case "stateless" -> {
                KStream<String, String> s = b.stream("a");
                var branches = s.filter((k, v) -> v != null).split().branch((k, v) -> v.contains("1")).branch((k, v) -> v.contains("2")).defaultBranch();
                KStream<String, String> one = branches.get("KSTREAM-BRANCH-00000000021").mapValues(v -> v + "!");
                KStream<String, String> two = branches.get("KSTREAM-BRANCH-00000000022").map((k, v) -> KeyValue.pair(v, k));
                one.merge(two).flatMapValues(v -> java.util.Arrays.asList(v, v + "+")).peek((k, v) -> { }).to("out");
            }
            case "count" -> b.<String, String>stream("a").groupByKey().count().toStream().mapValues(v -> "" + v).to("out");
            case "group_count" -> b.<String, String>stream("a").groupBy((k, v) -> v).count().toStream().mapValues(v -> "" + v).to("out");
            case "reduce" -> b.<String, String>stream("a").selectKey((k, v) -> k).groupByKey().reduce(PAIR::apply, Materialized.as("kept")).toStream().to("out");
            case "aggregate" -> b.<String, String>stream("a").groupByKey().aggregate(() -> "0", (k, v, a) -> a + v).toStream().to("out");
            case "count_of_counts" -> b.<String, String>stream("a").groupByKey().count()
                .groupBy((k, v) -> KeyValue.pair("" + v, k), Grouped.with(TEXT, TEXT)).count().toStream().mapValues(v -> "" + v).to("out");
            case "table_group" -> b.<String, String>table("a").groupBy((k, v) -> KeyValue.pair(v, k))
                .aggregate(() -> "0", (k, v, a) -> a + "+" + v, (k, v, a) -> a + "-" + v).toStream().to("out");
            case "table_reduce" -> b.<String, String>table("a").groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v))
                .reduce((a, v) -> a + "+" + v, (a, v) -> a + "-" + v).toStream().to("out");
            case "table_filter" -> b.<String, String>table("a").filter((k, v) -> v.contains("1")).mapValues(v -> v + "!").toStream().to("out");
            case "table_filter_group" -> b.<String, String>table("a").filter((k, v) -> v.contains("1")).mapValues(v -> v + "!")
                .groupBy((k, v) -> KeyValue.pair(v, k)).count().toStream().mapValues(v -> "" + v).to("out");
            case "to_table" -> b.<String, String>stream("a").map((k, v) -> KeyValue.pair(k, v)).toTable().filterNot((k, v) -> v.contains("1")).toStream().to("out");
            case "tumbling" -> windowed(b, TimeWindows.ofSizeAndGrace(ms(10), ms(5)), EmitStrategy.onWindowUpdate());
            case "hopping" -> windowed(b, TimeWindows.ofSizeAndGrace(ms(10), ms(5)).advanceBy(ms(4)), EmitStrategy.onWindowUpdate());
            case "tumbling_close" -> windowed(b, TimeWindows.ofSizeAndGrace(ms(10), ms(5)), EmitStrategy.onWindowClose());
            case "hopping_close" -> windowed(b, TimeWindows.ofSizeAndGrace(ms(10), ms(5)).advanceBy(ms(4)), EmitStrategy.onWindowClose());
            case "sliding" -> sliding(b, EmitStrategy.onWindowUpdate());
            case "sliding_close" -> sliding(b, EmitStrategy.onWindowClose());
            case "session" -> session(b, EmitStrategy.onWindowUpdate());
            case "session_close" -> session(b, EmitStrategy.onWindowClose());
            case "window_count_suppress" -> shown(b.<String, String>stream("a").groupByKey(Grouped.with(TEXT, TEXT)).windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count().suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).mapValues(v -> "" + v));
            case "session_suppress" -> shown(b.<String, String>stream("a").groupByKey(Grouped.with(TEXT, TEXT)).windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3)))
                .count().suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).mapValues(v -> "" + v));
            case "suppress_time" -> b.<String, String>table("a").suppress(Suppressed.untilTimeLimit(ms(7), Suppressed.BufferConfig.unbounded())).toStream().to("out");
            case "cogroup" -> b.<String, String>stream("a").groupByKey().<String>cogroup((k, v, a) -> a + "a" + v)
                .cogroup(b.<String, String>stream("b").groupByKey(), (k, v, a) -> a + "b" + v).aggregate(() -> "0").toStream().to("out");
            case "cogroup_rekeyed" -> b.<String, String>stream("a").groupBy((k, v) -> v).<String>cogroup((k, v, a) -> a + "a" + v)
                .cogroup(b.<String, String>stream("b").selectKey((k, v) -> k).groupByKey(Grouped.as("second")), (k, v, a) -> a + "b" + v).aggregate(() -> "0").toStream().to("out");
            case "cogroup_tumbling" -> shown(cogrouped(b).windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).aggregate(() -> "0"));
            case "cogroup_sliding" -> shown(cogrouped(b).windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(8), ms(5))).aggregate(() -> "0"));
            case "cogroup_session" -> shown(cogrouped(b).windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3)))
                .aggregate(() -> "0", (k, x, y) -> x + "&" + y));
            case "window_reduce" -> shown(b.<String, String>stream("a").groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .reduce(PAIR::apply));
            case "named" -> {
                KStream<String, String> s = b.<String, String>stream("a", Consumed.as("in")).filter((k, v) -> v != null, Named.as("some"))
                    .map((k, v) -> KeyValue.pair(v, k), Named.as("turned"));
                KTable<String, String> t = s.groupByKey(Grouped.as("by-value")).reduce(PAIR::apply, Named.as("reduced"), Materialized.as("kept"));
                b.<String, String>stream("b", Consumed.as("other")).selectKey((k, v) -> v, Named.as("chosen"))
                    .join(t, PAIR, Joined.as("joined")).leftJoin(s.repartition(Repartitioned.as("again")), PAIR, JoinWindows.ofTimeDifferenceAndGrace(ms(6), ms(3)), StreamJoined.with(TEXT, TEXT, TEXT).withName("paired").withStoreName("pairs"))
                    .to("out", Produced.as("end"));
            }
            case "by_pattern" -> b.<String, String>stream(Pattern.compile("[ab]")).filter((k, v) -> v != null).merge(b.<String, String>stream("c"))
                .groupByKey().count().toStream().mapValues(v -> "" + v).to("out");
            case "by_pattern_named" -> b.<String, String>stream(Pattern.compile("a|b|x.*"), Consumed.as("some")).mapValues(v -> v + "+").to("out");
            case "topic_and_pattern" -> { b.<String, String>stream("a").to("out"); b.<String, String>stream(Pattern.compile("[ab]")).to("out"); }
            case "pattern_and_table" -> { b.<String, String>stream(Pattern.compile("[ab]")).to("out"); b.<String, String>table("a").toStream().to("out"); }
            case "partitioned" -> b.<String, String>stream("a").to("out", Produced.streamPartitioner((topic, k, v, count) ->
                "1".equals(v) ? Optional.of(Set.of()) : "2".equals(v) ? Optional.of(Set.of(count - 1)) : Optional.empty()));
            case "stream_table" -> b.<String, String>stream("a").join(b.<String, String>table("b"), PAIR).to("out");
            case "stream_table_left" -> b.<String, String>stream("a").selectKey((k, v) -> k).leftJoin(b.<String, String>table("b"), PAIR).to("out");
            case "stream_global" -> b.<String, String>stream("a").join(b.<String, String>globalTable("b"), (k, v) -> k, PAIR).to("out");
            case "stream_global_left" -> b.<String, String>stream("a").leftJoin(b.<String, String>globalTable("b"), (k, v) -> k, PAIR).to("out");
            case "versioned_stream" -> b.<String, String>stream("a").leftJoin(versioned(b), PAIR).to("out");
            case "versioned_mapped" -> b.<String, String>stream("a").leftJoin(versioned(b).mapValues(v -> v + "!"), PAIR).to("out");
            case "grace" -> b.<String, String>stream("a").join(versioned(b), PAIR, waiting(5)).to("out");
            case "grace_left" -> b.<String, String>stream("a").selectKey((k, v) -> k).leftJoin(versioned(b).mapValues(v -> v + "!"), PAIR, waiting(20)).to("out");
            case "grace_named" -> b.<String, String>stream("a").leftJoin(versioned(b), PAIR, waiting(0).withName("met")).to("out");
            case "grace_unversioned" -> b.<String, String>stream("a").join(b.<String, String>table("b"), PAIR, waiting(5)).to("out");
            case "grace_kept" -> b.<String, String>stream("a").join(versioned(b).mapValues(v -> v + "!", Materialized.as("kept")), PAIR, waiting(5)).to("out");
            case "grace_too_long" -> b.<String, String>stream("a").join(versioned(b), PAIR, waiting(21)).to("out");
            case "versioned_tables" -> b.<String, String>table("a").leftJoin(versioned(b), PAIR).toStream().to("out");
            case "versioned_group" -> versioned(b).groupBy((k, v) -> KeyValue.pair(v, k), Grouped.with(TEXT, TEXT)).count().toStream().mapValues(v -> v == null ? "null" : "" + v).to("out");
            case "versioned_alone" -> versioned(b).toStream().mapValues(v -> v == null ? "null" : v).to("out");
            case "tables_inner" -> b.<String, String>table("a").join(b.<String, String>table("b"), PAIR).toStream().to("out");
            case "tables_left" -> b.<String, String>table("a").leftJoin(b.<String, String>table("b"), PAIR).toStream().to("out");
            case "tables_outer" -> b.<String, String>table("a").outerJoin(b.<String, String>table("b"), PAIR).toStream().to("out");
            case "tables_kept_group" -> b.<String, String>table("a").outerJoin(b.<String, String>table("b"), PAIR, Materialized.as("joined"))
                .groupBy((k, v) -> KeyValue.pair(v, k)).count().toStream().mapValues(v -> "" + v).to("out");
            case "tables_twice" -> b.<String, String>table("a").leftJoin(b.<String, String>table("b"), PAIR)
                .outerJoin(b.<String, String>table("c").mapValues(v -> v + "c"), PAIR).toStream().to("out");
            case "foreign" -> b.<String, String>table("a", Consumed.with(TEXT, TEXT)).join(b.<String, String>table("b", Consumed.with(TEXT, TEXT)), StreamsOracle::foreign, PAIR).toStream().to("out");
            case "foreign_left" -> b.<String, String>table("a", Consumed.with(TEXT, TEXT)).leftJoin(b.<String, String>table("b", Consumed.with(TEXT, TEXT)), StreamsOracle::foreign, PAIR)
                .filter((k, v) -> true).toStream().to("out");
            case "streams_inner" -> b.<String, String>stream("a").join(b.<String, String>stream("b"), PAIR, JoinWindows.ofTimeDifferenceAndGrace(ms(6), ms(3))).to("out");
            case "streams_left" -> b.<String, String>stream("a").leftJoin(b.<String, String>stream("b"), PAIR, JoinWindows.ofTimeDifferenceAndGrace(ms(6), ms(3))).to("out");
            case "streams_outer" -> b.<String, String>stream("a").outerJoin(b.<String, String>stream("b"), PAIR, JoinWindows.ofTimeDifferenceAndGrace(ms(6), ms(3))).to("out");
            case "streams_uneven" -> b.<String, String>stream("a").selectKey((k, v) -> k).outerJoin(b.<String, String>stream("b"), PAIR,
                JoinWindows.ofTimeDifferenceAndGrace(ms(2), ms(3)).after(ms(8))).to("out");
            default -> throw new IllegalArgumentException(name);
        }
        return b.build();
    }

    private static String foreign(String key, String value) {
        return value.equals("1") ? "k" : value.equals("2") ? "j" : null;
    }

    private static Joined<String, String, String> waiting(long graceMs) {
        return Joined.with(TEXT, TEXT, TEXT).withGracePeriod(ms(graceMs));
    }

    private static Duration ms(long ms) {
        return Duration.ofMillis(ms);
    }

    private static void windowed(StreamsBuilder b, TimeWindows windows, EmitStrategy strategy) {
        shown(b.<String, String>stream("a").groupByKey().windowedBy(windows).emitStrategy(strategy)
            .aggregate(() -> "0", (k, v, a) -> a + v));
    }

    private static void sliding(StreamsBuilder b, EmitStrategy strategy) {
        shown(b.<String, String>stream("a").groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(8), ms(5)))
            .emitStrategy(strategy).aggregate(() -> "0", (k, v, a) -> a + v));
    }

    private static void session(StreamsBuilder b, EmitStrategy strategy) {
        shown(b.<String, String>stream("a").groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3)))
            .emitStrategy(strategy).aggregate(() -> "0", (k, v, a) -> a + v, (k, x, y) -> x + "&" + y));
    }

    private static CogroupedKStream<String, String> cogrouped(StreamsBuilder b) {
        return b.<String, String>stream("a").groupBy((k, v) -> v).<String>cogroup((k, v, a) -> a + "a" + v)
            .cogroup(b.<String, String>stream("b").groupByKey(), (k, v, a) -> a + "b" + v);
    }

    private static KTable<String, String> versioned(StreamsBuilder b) {
        return b.table("b", Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("history", ms(20))).withKeySerde(TEXT).withValueSerde(TEXT));
    }

    private static void shown(KTable<Windowed<String>, String> table) {
        table.toStream().map((k, v) -> KeyValue.pair(k.key() + "@" + k.window().start() + "-" + k.window().end(), v)).to("out");
    }
}
