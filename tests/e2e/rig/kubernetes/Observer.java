import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What applications see of a cluster while somebody restarts its nodes, by Kafka's own client: nothing here is the
 * product's. Each second one record to every partition of the topics, acks=all; a consumer of a group; and what each
 * broker says of every in-sync replica set, asked of that broker itself. Usage:
 *
 *   Observer BROKER,... TOPIC,...
 *
 * Prints a line of JSON for whatever goes wrong, and for each change that a broker tells of. To the line "verify" of its
 * input it reads every partition from its beginning, and says which acknowledged records are not there.
 */
public class Observer {
    static final short METADATA = 12; // known to every release of these tests
    static final int MIN_IN_SYNC = 2;
    static final long SECOND = 1000, SLOW = 3 * SECOND;

    /** Acknowledged: key by partition and offset. Seen: the same, by the consumer of the group. */
    static final Map<TopicPartition, Map<Long, String>> acknowledged = new ConcurrentHashMap<>();
    static final Map<TopicPartition, Map<Long, String>> seen = new ConcurrentHashMap<>();
    static final AtomicLong sent = new AtomicLong(), done = new AtomicLong(), failed = new AtomicLong();
    static final AtomicLong slowest = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        String[] brokers = arguments[0].split(",");
        List<String> topics = List.of(arguments[1].split(","));
        for (String broker : brokers) background(() -> look(broker, topics));
        background(() -> consume(arguments[0], topics));
        background(() -> produce(arguments[0], topics));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) verify(arguments[0], topics);
        System.exit(0);
    }

    // --- writes ---

    static void produce(String servers, List<String> topics) throws Exception {
        Properties settings = client(servers);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        settings.put("request.timeout.ms", "5000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("max.block.ms", "30000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String topic : topics)
                for (PartitionInfo one : producer.partitionsFor(topic))
                    partitions.add(new TopicPartition(topic, one.partition()));
            for (long round = 0; ; round++) {
                long began = System.currentTimeMillis();
                for (TopicPartition to : partitions) {
                    String key = to + "/" + round;
                    sent.incrementAndGet();
                    producer.send(new ProducerRecord<>(to.topic(), to.partition(), key, ""), (where, error) -> {
                        long took = System.currentTimeMillis() - began;
                        if (error == null) {
                            acknowledged.computeIfAbsent(to, ignored -> new ConcurrentHashMap<>()).put(where.offset(), key);
                            slowest.accumulateAndGet(took, Math::max);
                            if (took > SLOW) say("slow", Map.of("partition", to.toString(), "took", took));
                            done.incrementAndGet();
                        } else {
                            failed.incrementAndGet();
                            say("error", Map.of("partition", to.toString(), "key", key, "what", error.toString(), "took", took));
                        }
                    });
                }
                if (round == 0) { // until brokers that just started know their topics
                    producer.flush();
                    slowest.set(0);
                    say("writes", Map.of("partitions", partitions.size()));
                }
                Thread.sleep(Math.max(1, began + SECOND - System.currentTimeMillis()));
            }
        }
    }

    // --- reads ---

    static void consume(String servers, List<String> topics) {
        Properties settings = client(servers);
        settings.put("group.id", "observer-" + String.join("-", topics));
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(topics);
            while (true) keep(consumer.poll(Duration.ofSeconds(1)), seen);
        }
    }

    /** A partition that was emptied on purpose or by an accident begins late: then its first records are lost. */
    static void verify(String servers, List<String> topics) throws Exception {
        while (sent.get() > done.get() + failed.get()) Thread.sleep(10);
        Map<TopicPartition, Map<Long, String>> promised = new HashMap<>(), there = new HashMap<>();
        acknowledged.forEach((where, keys) -> promised.put(where, new TreeMap<>(keys)));
        try (var consumer = new KafkaConsumer<>(client(servers), new StringDeserializer(), new StringDeserializer())) {
            Collection<TopicPartition> all = promised.keySet();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(one -> consumer.position(one) < ends.get(one)))
                keep(consumer.poll(Duration.ofMillis(200)), there);
        }
        List<String> lost = missing(promised, there);
        for (int tries = 0; tries < 100 && !missing(promised, seen).isEmpty(); tries++) Thread.sleep(100);
        say("verified", Map.of("acknowledged", promised.values().stream().mapToInt(Map::size).sum(), "lost", lost,
            "unseen", missing(promised, seen), "slowest", slowest.getAndSet(0)));
    }

    static void keep(Iterable<ConsumerRecord<String, String>> records, Map<TopicPartition, Map<Long, String>> into) {
        for (var record : records)
            into.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), ignored -> new ConcurrentHashMap<>())
                .put(record.offset(), record.key());
    }

    static List<String> missing(Map<TopicPartition, Map<Long, String>> promised, Map<TopicPartition, Map<Long, String>> there) {
        List<String> found = new ArrayList<>();
        promised.forEach((where, keys) -> keys.forEach((offset, key) -> {
            if (!key.equals(there.getOrDefault(where, Map.of()).get(offset))) found.add(where + "@" + offset);
        }));
        return found;
    }

    // --- what each broker says ---

    /** Five times a second, over one connection; while there is none, nothing is said of it. */
    static void look(String broker, List<String> topics) throws Exception {
        Map<String, String> told = new HashMap<>();
        String host = broker.substring(0, broker.lastIndexOf(':'));
        int port = Integer.parseInt(broker.substring(broker.lastIndexOf(':') + 1));
        while (true) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(host, port), (int) SECOND); // the pod may just have gone
                socket.setSoTimeout((int) SLOW);
                var output = new DataOutputStream(socket.getOutputStream());
                var input = new DataInputStream(socket.getInputStream());
                for (int id = 0; ; id++) {
                    for (var topic : ask(output, input, topics, id))
                        for (var partition : topic.partitions()) judge(host, topic.name(), partition, told);
                    Thread.sleep(SECOND / 5);
                }
            } catch (IOException gone) {
                Thread.sleep(SECOND / 5);
            }
        }
    }

    static MetadataResponseData.MetadataResponseTopicCollection ask(
        DataOutputStream output, DataInputStream input, List<String> topics, int id) throws IOException {
        var header = new RequestHeader(ApiKeys.METADATA, METADATA, "observer", id);
        ByteBuffer request = new MetadataRequest.Builder(topics, false).build(METADATA).serializeWithHeader(header);
        output.writeInt(request.remaining());
        output.write(request.array(), request.arrayOffset() + request.position(), request.remaining());
        output.flush();
        byte[] reply = new byte[input.readInt()];
        input.readFully(reply);
        return ((MetadataResponse) PARSE.of(ByteBuffer.wrap(reply), header)).data().topics();
    }

    static void judge(String host, String topic, MetadataResponseData.MetadataResponsePartition partition, Map<String, String> told) {
        String where = topic + "-" + partition.partitionIndex(), now = partition.isrNodes() + " " + partition.leaderId();
        if (now.equals(told.put(where, now))) return;
        String kind = partition.isrNodes().size() < MIN_IN_SYNC ? "below" : "isr";
        say(kind, Map.of("by", host.substring(0, host.indexOf('.')), "partition", where, "isr", partition.isrNodes(), "leader", partition.leaderId()));
    }

    /** Where the method is called otherwise in another release of the client, this does not compile. */
    interface Parser { AbstractResponse of(ByteBuffer buffer, RequestHeader header); }
    static final Parser PARSE = (buffer, header) -> AbstractResponse.parseResponse(buffer, header);

    // --- helpers ---

    static Properties client(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("metadata.max.age.ms", "5000");
        return settings;
    }

    interface Work { void run() throws Exception; }

    static void background(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                say("broken", Map.of("what", error.toString()));
                Runtime.getRuntime().halt(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    static synchronized void say(String kind, Map<String, ?> fields) {
        StringBuilder line = new StringBuilder("{\"at\": " + System.currentTimeMillis() + ", \"kind\": " + json(kind));
        new TreeMap<>(fields).forEach((name, value) -> line.append(", ").append(json(name)).append(": ").append(json(value)));
        System.out.println(line.append("}"));
    }

    static String json(Object value) {
        if (value instanceof Number) return value.toString();
        if (value instanceof Collection<?> many) {
            List<String> items = new ArrayList<>();
            for (Object one : many) items.add(json(one));
            return "[" + String.join(", ", items) + "]";
        }
        return '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }
}
