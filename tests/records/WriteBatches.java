import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

/** Batches as Apache Kafka's own classes write them, one a line in hex: test_oracles.py reads them. */
public class WriteBatches {
    public static void main(String[] args) {
        for (CompressionType codec : CompressionType.values()) {
            MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), (byte) 2,
                Compression.of(codec).build(), TimestampType.CREATE_TIME, 100, -1, 9, (short) 3, 2147483640, true, 5);
            for (int i = 0; i < 500; i++) {
                Header[] headers = i % 3 == 0 ? new Header[0]
                    : new Header[] {new RecordHeader("h" + i, ("\u00e9" + i).getBytes()), new RecordHeader("", null)};
                builder.append(1700000000000L + i * 7, i % 5 == 0 ? null : ("key-" + i).getBytes(),
                    i % 7 == 0 ? null : ("value-" + "x".repeat(i)).getBytes(), headers);
            }
            print(builder.build());
        }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT})
            print(MemoryRecords.withEndTransactionMarker(7, 1700000000000L, 4, 11, (short) 2,
                new EndTransactionMarker(type, 6)));
    }

    private static void print(MemoryRecords records) {
        byte[] bytes = new byte[records.buffer().remaining()];
        records.buffer().get(bytes);
        System.out.println(HexFormat.of().formatHex(bytes));
    }
}
