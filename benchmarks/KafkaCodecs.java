// What Kafka's own classes do with metadata records; compiled when it is run, by kafka_codecs.py.
//
//   java -cp 'JARS/*' KafkaCodecs.java record COUNT
//   java -cp 'JARS/*' KafkaCodecs.java batch COUNT
//   java -cp 'JARS/*' KafkaCodecs.java apply TOPICS PARTITIONS
//
// Prints one JSON object. Rates are per second of CPU of the one thread, best of the rounds, the
// first of which warm the compiler up.

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.IntFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public final class KafkaCodecs {
    static final int ROUNDS = 12;
    static final int VARIANTS = 1000;
    static final int BATCH = 1000;
    static final int BROKERS = 6;
    static final MetadataRecordSerde SERDE = new MetadataRecordSerde();
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    static long sink;

    interface Work {
        void run() throws Exception;
    }

    /** Records per second of CPU of the best round. */
    static long rate(long records, Work work) throws Exception {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            long begin = THREADS.getCurrentThreadCpuTime();
            work.run();
            best = Math.min(best, THREADS.getCurrentThreadCpuTime() - begin);
        }
        return Math.round(1e9 * records / best);
    }

    static byte[] encode(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    static ApiMessageAndVersion decode(ByteBuffer value) {
        return SERDE.read(new ByteBufferAccessor(value), value.remaining());
    }

    static Uuid id(long number) {
        return new Uuid(number, number);
    }

    static PartitionRecord partition(int number) {
        List<Integer> replicas = new ArrayList<>();
        for (int k = 0; k < 3; k++) replicas.add(1 + (number * 7 + k) % BROKERS);
        return new PartitionRecord().setPartitionId(number).setTopicId(id(number))
            .setReplicas(replicas).setIsr(replicas.subList(0, 2 + number % 2))
            .setLeader(replicas.get(0)).setLeaderEpoch(number % 9)
            .setPartitionEpoch(number % 300);
    }

    static PartitionRecord placed(int number) {
        PartitionRecord one = partition(number);
        List<Uuid> directories = new ArrayList<>();
        for (int node : one.replicas()) directories.add(id(0x0101010101010101L * node));
        return one.setDirectories(directories);
    }

    static PartitionChangeRecord change(int number) {
        return new PartitionChangeRecord().setPartitionId(number).setTopicId(id(number))
            .setIsr(List.of(1, 2, 3).subList(0, 1 + number % 3)).setLeader(2);
    }

    static RegisterBrokerRecord registration(int number) {
        RegisterBrokerRecord.BrokerEndpointCollection endPoints =
            new RegisterBrokerRecord.BrokerEndpointCollection();
        endPoints.add(new RegisterBrokerRecord.BrokerEndpoint().setName("PLAINTEXT")
            .setHost("127.0.0.1").setPort(9092));
        return new RegisterBrokerRecord().setBrokerId(number).setIncarnationId(id(7))
            .setBrokerEpoch(number).setEndPoints(endPoints).setLogDirs(List.of(id(7)));
    }

    static String one(String name, int version, int count, IntFunction<ApiMessage> make)
            throws Exception {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        for (int number = 0; number < VARIANTS; number++) {
            records.add(new ApiMessageAndVersion(make.apply(number), (short) version));
            values.add(encode(records.get(number)));
        }
        int passes = Math.max(1, count / VARIANTS);
        long decoded = rate((long) passes * VARIANTS, () -> {
            for (int pass = 0; pass < passes; pass++)
                for (byte[] value : values) sink += decode(ByteBuffer.wrap(value)).version();
        });
        long encoded = rate((long) passes * VARIANTS, () -> {
            for (int pass = 0; pass < passes; pass++)
                for (ApiMessageAndVersion record : records) sink += encode(record).length;
        });
        return String.format("\"%s\":{\"bytes\":%d,\"decode_per_s\":%d,\"encode_per_s\":%d}",
            name, values.get(VARIANTS - 1).length, decoded, encoded);
    }

    static String records(int count) throws Exception {
        return String.join(",",
            one("PartitionRecord v0", 0, count, KafkaCodecs::partition),
            one("PartitionRecord v1", 1, count, KafkaCodecs::placed),
            one("PartitionChange v1", 1, count, KafkaCodecs::change),
            one("TopicRecord v0", 0, count,
                n -> new TopicRecord().setName("orders-" + n).setTopicId(id(7))),
            one("NoOpRecord v0", 0, count, n -> new NoOpRecord()),
            one("RegisterBroker v3", 3, count, KafkaCodecs::registration));
    }

    static String batch(int count) throws Exception {
        SimpleRecord[] values = new SimpleRecord[count];
        for (int n = 0; n < count; n++)
            values[n] = new SimpleRecord(1L, null,
                encode(new ApiMessageAndVersion(change(n), (short) 1)));
        MemoryRecords made = MemoryRecords.withRecords(0L, Compression.NONE, 1, values);
        int passes = Math.max(1, 200_000 / count);
        long all = (long) passes * count;
        long encoded = rate(all, () -> {
            for (int pass = 0; pass < passes; pass++)
                sink += MemoryRecords.withRecords(0L, Compression.NONE, 1, values).sizeInBytes();
        });
        long parsed = rate(all, () -> {
            for (int pass = 0; pass < passes; pass++)
                for (RecordBatch one : made.batches()) one.ensureValid();
        });
        long split = rate(all, () -> {
            for (int pass = 0; pass < passes; pass++)
                for (Record record : made.records()) sink += record.valueSize();
        });
        long read = rate(all, () -> {
            for (int pass = 0; pass < passes; pass++)
                for (RecordBatch one : made.batches()) {
                    one.ensureValid();
                    for (Record record : one) sink += decode(record.value()).version();
                }
        });
        return String.format("\"bytes\":%d,\"encode_per_s\":%d,\"parse_per_s\":%d,"
            + "\"split_per_s\":%d,\"read_per_s\":%d", made.sizeInBytes(), encoded, parsed, split,
            read);
    }

    static List<ApiMessageAndVersion> creation(int topics, int partitions) {
        Random random = new Random(1);
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (int number = 0; number < topics; number++) {
            Uuid topic = new Uuid(random.nextLong(), random.nextLong());
            records.add(new ApiMessageAndVersion(
                new TopicRecord().setName("topic-" + number).setTopicId(topic), (short) 0));
            for (int part = 0; part < partitions; part++) {
                PartitionRecord record = placed(random.nextInt(1000)).setPartitionId(part)
                    .setTopicId(topic).setLeaderEpoch(0).setPartitionEpoch(0);
                record.setIsr(record.replicas());
                records.add(new ApiMessageAndVersion(record, (short) 1));
            }
        }
        return records;
    }

    /** The image after the records, one delta for each so many. */
    static MetadataImage applied(MetadataImage image, List<ApiMessageAndVersion> records, int size) {
        for (int start = 0; start < records.size(); start += size) {
            int end = Math.min(records.size(), start + size);
            MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
            for (ApiMessageAndVersion record : records.subList(start, end))
                delta.replay(record.message());
            image = delta.apply(new MetadataProvenance(end, 1, 1L, true));
        }
        return image;
    }

    static MetadataImage loaded(List<byte[]> values) {
        MetadataImage image = MetadataImage.EMPTY;
        List<ApiMessageAndVersion> some = new ArrayList<>();
        for (byte[] value : values) {
            some.add(decode(ByteBuffer.wrap(value)));
            if (some.size() == BATCH) {
                image = applied(image, some, BATCH);
                some = new ArrayList<>();
            }
        }
        return applied(image, some, BATCH);
    }

    static long usedBytes() throws Exception {
        for (int k = 0; k < 3; k++) {
            System.gc();
            Thread.sleep(50);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** The heap that becomes free when an image goes. */
    static long imageBytes(List<byte[]> values) throws Exception {
        MetadataImage[] kept = {loaded(values)};
        usedBytes();
        long with = usedBytes();
        kept[0] = null;
        return with - usedBytes();
    }

    /** On its own, since a loop's variables keep what they hold as long as the method runs. */
    static List<byte[]> encoded(List<ApiMessageAndVersion> records) {
        List<byte[]> values = new ArrayList<>();
        for (ApiMessageAndVersion record : records) values.add(encode(record));
        return values;
    }

    static String apply(int topics, int partitions) throws Exception {
        List<byte[]> values = encoded(creation(topics, partitions));
        MetadataImage image = loaded(values);
        long load = rate(values.size(), () -> sink += loaded(values).topics().topicsById().size());
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (byte[] value : values) records.add(decode(ByteBuffer.wrap(value)));
        long apply = rate(records.size(), () -> sink += applied(MetadataImage.EMPTY, records,
            records.size()).topics().topicsById().size());
        Random random = new Random(1);
        List<Uuid> ids = new ArrayList<>(image.topics().topicsById().keySet());
        List<ApiMessageAndVersion> changes = new ArrayList<>();
        for (int k = 0; k < 100_000; k++)
            changes.add(new ApiMessageAndVersion(
                new PartitionChangeRecord().setPartitionId(random.nextInt(partitions))
                    .setTopicId(ids.get(random.nextInt(ids.size())))
                    .setIsr(List.of(1, 2)).setLeader(2), (short) 1));
        MetadataImage whole = image;
        long changed = rate(changes.size(),
            () -> sink += applied(whole, changes, changes.size()).topics().topicsById().size());
        return String.format("\"partitions\":%d,\"load_per_s\":%d,\"apply_per_s\":%d,"
            + "\"changes_per_s\":%d,\"bytes_per_partition\":%d", topics * partitions, load, apply,
            changed, imageBytes(values) / ((long) topics * partitions));
    }

    public static void main(String[] words) throws Exception {
        int first = Integer.parseInt(words[1]);
        String fields = switch (words[0]) {
            case "record" -> records(first);
            case "batch" -> batch(first);
            default -> apply(first, Integer.parseInt(words[2]));
        };
        System.out.println("{" + fields + "}");
    }
}
