import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.regex.Pattern;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Answers with Connect's own classes: a request in JSON a line in, an answer a line out. test_oracle.py asks. */
public class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PACKAGE = "org.apache.kafka.connect.transforms.";
    private static final JsonConverter SCHEMAS = converter(Map.of("replace.null.with.default", "false"));
    private static final Map<String, Object> MADE = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Throwable e) {
                answer = JSON.createObjectNode().put("error", e.getClass().getName()).put("message", e.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void answer(JsonNode ask, ObjectNode answer) throws Exception {
        switch (ask.get("op").asText()) {
            case "parse" -> answer.set("value", shown(Values.parseString(ask.get("text").asText())));
            case "text" -> {
                SchemaAndValue value = value(ask.get("value"));
                answer.put("text", Values.convertToString(value.schema(), value.value()));
            }
            case "write" -> {
                SchemaAndValue value = value(ask.get("value"));
                byte[] bytes = converter(config(ask)).fromConnectData("t", value.schema(), value.value());
                answer.put("text", bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
            }
            case "read" -> {
                byte[] bytes = ask.get("text").asText().getBytes(StandardCharsets.UTF_8);
                answer.set("value", shown(converter(config(ask)).toConnectData("t", bytes)));
            }
            case "date" -> {
                SimpleDateFormat format = new SimpleDateFormat(ask.get("pattern").asText());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                String text = ask.has("read") ? ask.get("read").asText() : format.format(new Date(ask.get("ms").asLong()));
                try {
                    answer.put("ms", format.parse(text).getTime());
                } catch (ParseException e) {
                    answer.put("unread", true);
                }
                if (!ask.has("read")) answer.put("text", text);
            }
            case "regex" ->
                answer.put("matches", Pattern.compile(ask.get("pattern").asText()).matcher(ask.get("text").asText()).matches());
            default -> apply(ask, answer);
        }
    }

    @SuppressWarnings("unchecked")
    private static void apply(JsonNode ask, ObjectNode answer) throws Exception {
        SchemaAndValue key = value(ask.get("key")), value = value(ask.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : ask.get("headers"))
            headers.add(header.get(0).asText(), value(header.get(1)));
        SinkRecord record = new SinkRecord(ask.get("topic").asText(), 3, key.schema(), key.value(), value.schema(),
            value.value(), 77, ask.get("timestamp").isNull() ? null : ask.get("timestamp").asLong(),
            TimestampType.CREATE_TIME, headers);
        Object plugin = plugin(ask);
        if (plugin instanceof Predicate) {
            answer.put("test", ((Predicate<SinkRecord>) plugin).test(record));
            return;
        }
        SinkRecord made = ((Transformation<SinkRecord>) plugin).apply(record);
        if (made == null) {
            answer.put("dropped", true);
            return;
        }
        answer.put("topic", made.topic());
        answer.set("key", shown(new SchemaAndValue(made.keySchema(), made.key())));
        answer.set("value", shown(new SchemaAndValue(made.valueSchema(), made.value())));
        ArrayNode shown = answer.putArray("headers");
        for (Header header : made.headers())
            shown.addArray().add(header.key()).add(shown(new SchemaAndValue(header.schema(), header.value())));
    }

    private static Object plugin(JsonNode ask) throws Exception {
        String name = ask.get("class").asText() + ask.get("config");
        if (!MADE.containsKey(name)) {
            Object made = Class.forName(PACKAGE + ask.get("class").asText()).getDeclaredConstructor().newInstance();
            ((org.apache.kafka.common.Configurable) made).configure(config(ask));
            MADE.put(name, made);
        }
        return MADE.get(name);
    }

    private static Map<String, String> config(JsonNode ask) {
        Map<String, String> config = new HashMap<>();
        ask.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static JsonConverter converter(Map<String, String> config) {
        JsonConverter made = new JsonConverter();
        made.configure(config, false);
        return made;
    }

    private static SchemaAndValue value(JsonNode envelope) throws Exception {
        if (envelope.isNull())
            return new SchemaAndValue(null, null);
        if (envelope.get("schema").isNull())
            return new SchemaAndValue(null, plain(envelope.get("payload")));
        return SCHEMAS.toConnectData("t", JSON.writeValueAsBytes(envelope));
    }

    /** Data without a schema: whole numbers are Long, others Double; $date and $bytes stand for what JSON lacks. */
    private static Object plain(JsonNode node) throws Exception {
        if (node.isNull()) return null;
        if (node.isBoolean()) return node.booleanValue();
        if (node.isIntegralNumber()) return node.longValue();
        if (node.isNumber()) return node.doubleValue();
        if (node.isTextual()) return node.textValue();
        if (node.isArray()) {
            List<Object> list = new ArrayList<>();
            for (JsonNode item : node) list.add(plain(item));
            return list;
        }
        if (node.has("$date")) return new Date(node.get("$date").asLong());
        if (node.has("$bytes")) return node.get("$bytes").binaryValue();
        if (node.has("$double")) return Double.parseDouble(node.get("$double").asText());
        Map<String, Object> map = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> entry : node.properties()) map.put(entry.getKey(), plain(entry.getValue()));
        return map;
    }

    private static JsonNode shown(SchemaAndValue value) throws Exception {
        if (value == null || (value.schema() == null && value.value() == null))
            return JSON.nullNode();
        if (value.schema() == null)
            return JSON.createObjectNode().putNull("schema").set("payload", shown(value.value()));
        Schema schema = value.schema();
        return JSON.readTree(SCHEMAS.fromConnectData("t", schema, value.value()));
    }

    private static JsonNode shown(Object value) {
        if (value instanceof Date date) return JSON.createObjectNode().put("$date", date.getTime());
        if (value instanceof byte[] bytes)
            return JSON.createObjectNode().put("$bytes", Base64.getEncoder().encodeToString(bytes));
        if (value instanceof Float || value instanceof Double)
            return JSON.createObjectNode().put("$double", String.valueOf(((Number) value).doubleValue()));
        if (value instanceof List<?> list) {
            ArrayNode made = JSON.createArrayNode();
            for (Object item : list) made.add(shown(item));
            return made;
        }
        if (value instanceof Map<?, ?> map) {
            ObjectNode made = JSON.createObjectNode();
            map.forEach((key, item) -> made.set(String.valueOf(key), shown(item)));
            return made;
        }
        return JSON.valueToTree(value);
    }
}
