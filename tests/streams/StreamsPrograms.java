import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.Stores;

/** Builds the topologies that programs.py makes at random: a step is an operation, a variant, its operands, a topic. */
class StreamsPrograms {
    private static final Serde<String> TEXT = Serdes.String();
    private static final ValueJoiner<String, String, String> PAIR = (l, r) -> cut(l + "," + r);
    private static final Aggregator<String, String, String> ADDED = (k, v, a) -> cut(a + "+" + v);
    private static final Aggregator<String, String, String> TAKEN = (k, v, a) -> cut(a + "-" + v);

    static Topology built(JsonNode program) {
        StreamsBuilder b = new StreamsBuilder();
        List<Object> made = new ArrayList<>();
        for (JsonNode step : program) {
            List<Object> of = new ArrayList<>();
            step.get(2).forEach(at -> of.add(made.get(at.asInt())));
            made.add(step(b, step.get(0).asText(), step.get(1).asInt(), of, step.get(3).asText()));
        }
        return b.build();
    }

    static Set<String> outputs(JsonNode program) {
        Set<String> topics = new TreeSet<>();
        for (JsonNode step : program) {
            if (step.get(0).asText().equals("to")) topics.add(step.get(3).asText());
        }
        return topics;
    }

    @SuppressWarnings("unchecked")
    private static Object step(StreamsBuilder b, String name, int n, List<Object> of, String topic) {
        if (name.equals("stream")) return b.stream(topic, Consumed.with(TEXT, TEXT));
        if (name.equals("versions")) {
            var store = Stores.persistentVersionedKeyValueStore("history-" + topic, ms(20));
            return b.table(topic, Consumed.with(TEXT, TEXT), Materialized.<String, String>as(store).withKeySerde(TEXT).withValueSerde(TEXT));
        }
        if (name.equals("table")) return b.table(topic, Consumed.with(TEXT, TEXT));
        if (of.get(0) instanceof KTable) {
            return ofTable(name, n, (KTable<String, String>) of.get(0), of.size() > 1 ? (KTable<String, String>) of.get(1) : null);
        }
        if (name.equals("to")) {
            ((KStream<String, String>) of.get(0)).to(topic);
            return topic;
        }
        return ofStream(name, n, (KStream<String, String>) of.get(0), of.size() > 1 ? of.get(1) : null);
    }

    @SuppressWarnings("unchecked")
    private static Object ofStream(String name, int n, KStream<String, String> s, Object other) {
        return switch (name) {
            case "filter" -> s.filter((k, v) -> v != null && v.contains("1"));
            case "filter_not" -> s.filterNot((k, v) -> v != null && v.contains("2"));
            case "map" -> s.map((k, v) -> KeyValue.pair(v, k));
            case "map_values" -> s.mapValues(v -> cut(v + "!"));
            case "flat_map" -> s.flatMap((k, v) -> Arrays.asList(KeyValue.pair(k, v), KeyValue.pair(v, k)));
            case "flat_map_values" -> s.flatMapValues(v -> Arrays.asList(v, cut(v + "+")));
            case "select_key" -> s.selectKey((k, v) -> last("" + v));
            case "merge" -> s.merge((KStream<String, String>) other);
            case "repartition" -> s.repartition();
            case "to_table" -> s.toTable();
            case "count" -> s.groupByKey().count().mapValues(v -> "" + v);
            case "reduce" -> s.groupByKey().reduce(PAIR::apply);
            case "aggregate" -> s.groupBy((k, v) -> last("" + v)).aggregate(() -> "0", ADDED);
            case "windowed" -> windowed(s.groupByKey(), n);
            case "suppressed" -> suppressed(s.groupByKey(Grouped.with(TEXT, TEXT)), n % 3);
            case "cogroup" -> s.groupByKey().cogroup(ADDED).cogroup(((KStream<String, String>) other).groupByKey(), TAKEN).aggregate(() -> "0");
            case "stream_table" -> n % 2 == 1 ? s.leftJoin((KTable<String, String>) other, PAIR) : s.join((KTable<String, String>) other, PAIR);
            case "grace" -> grace(s, (KTable<String, String>) other, n);
            case "streams" -> streams(s, (KStream<String, String>) other, n);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Object ofTable(String name, int n, KTable<String, String> t, KTable<String, String> other) {
        return switch (name) {
            case "table_filter" -> t.filter((k, v) -> v.contains("1"));
            case "table_filter_not" -> t.filterNot((k, v) -> v.contains("2"));
            case "table_map_values" -> t.mapValues(v -> cut(v + "!"));
            case "table_group" -> t.groupBy((k, v) -> KeyValue.pair(last(v), v)).aggregate(() -> "0", ADDED, TAKEN);
            case "table_count" -> t.groupBy((k, v) -> KeyValue.pair(v, k)).count().mapValues(v -> "" + v);
            case "to_stream", "updates" -> t.toStream();
            case "time_limit" -> t.suppress(Suppressed.untilTimeLimit(ms(7), Suppressed.BufferConfig.unbounded()));
            case "tables" -> n % 3 == 0 ? t.join(other, PAIR) : n % 3 == 1 ? t.leftJoin(other, PAIR) : t.outerJoin(other, PAIR);
            case "foreign" -> n % 2 == 1 ? t.leftJoin(other, StreamsPrograms::foreign, PAIR) : t.join(other, StreamsPrograms::foreign, PAIR);
            case "by_value" -> t.join(other, (k, v) -> v, PAIR);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static KStream<String, String> windowed(KGroupedStream<String, String> s, int n) {
        EmitStrategy emit = n >= 4 ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        return shown(switch (n % 4) {
            case 0 -> s.windowedBy(tumbling()).emitStrategy(emit).aggregate(() -> "0", ADDED);
            case 1 -> s.windowedBy(tumbling().advanceBy(ms(4))).emitStrategy(emit).aggregate(() -> "0", ADDED);
            case 2 -> s.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(8), ms(5))).emitStrategy(emit).aggregate(() -> "0", ADDED);
            default -> s.windowedBy(sessions()).emitStrategy(emit).aggregate(() -> "0", ADDED, (k, x, y) -> cut(x + "&" + y));
        });
    }

    private static KStream<String, String> suppressed(KGroupedStream<String, String> s, int n) {
        KTable<Windowed<String>, Long> counted = n == 0 ? s.windowedBy(tumbling()).count()
            : n == 1 ? s.windowedBy(tumbling().advanceBy(ms(4))).count() : s.windowedBy(sessions()).count();
        return shown(counted.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).mapValues(v -> "" + v));
    }

    private static KStream<String, String> grace(KStream<String, String> s, KTable<String, String> table, int n) {
        var waiting = Joined.with(TEXT, TEXT, TEXT).withGracePeriod(ms(n % 3 == 0 ? 0 : n % 3 == 1 ? 5 : 20));
        return n % 2 == 1 ? s.leftJoin(table, PAIR, waiting) : s.join(table, PAIR, waiting);
    }

    private static KStream<String, String> streams(KStream<String, String> one, KStream<String, String> other, int n) {
        JoinWindows within = n % 2 == 0 ? JoinWindows.ofTimeDifferenceAndGrace(ms(6), ms(3)) : JoinWindows.ofTimeDifferenceAndGrace(ms(2), ms(3)).after(ms(8));
        return switch (n / 2 % 3) {
            case 0 -> one.join(other, PAIR, within);
            case 1 -> one.leftJoin(other, PAIR, within);
            default -> one.outerJoin(other, PAIR, within);
        };
    }

    private static TimeWindows tumbling() {
        return TimeWindows.ofSizeAndGrace(ms(10), ms(5));
    }

    private static SessionWindows sessions() {
        return SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3));
    }

    private static KStream<String, String> shown(KTable<Windowed<String>, String> table) {
        return table.toStream().map((k, v) -> KeyValue.pair(k.key() + "@" + k.window().start() + "-" + k.window().end(), v));
    }

    private static String foreign(String key, String value) {
        return last(value).equals("1") ? "k" : last(value).equals("2") ? "j" : null;
    }

    private static String last(String text) {
        return text.substring(Math.max(0, text.length() - 1));
    }

    private static String cut(String text) {
        return text.substring(Math.max(0, text.length() - 40));
    }

    private static Duration ms(long ms) {
        return Duration.ofMillis(ms);
    }
}
