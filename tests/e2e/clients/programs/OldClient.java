import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Produces and consumes with whatever release of kafka-clients is on the class path, from 0.9 on. */
public class OldClient {
    public static void main(String[] words) throws Exception {
        String topic = words[1];
        int seconds = Integer.parseInt(words[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("client.id", words[2]);
        settings.put("group.id", words[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("acks", "all");
        settings.put("retries", "0");
        String text = "org.apache.kafka.common.serialization.String";
        settings.put("key.serializer", text + "Serializer");
        settings.put("value.serializer", text + "Serializer");
        settings.put("key.deserializer", text + "Deserializer");
        settings.put("value.deserializer", text + "Deserializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.send(new ProducerRecord<String, String>(topic, "key", "value")).get(seconds, TimeUnit.SECONDS);
        System.out.println("produced");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(topic));
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (consumer.poll(500).isEmpty()) {
            if (System.currentTimeMillis() > end) {
                System.exit(1);
            }
        }
        consumer.commitSync();
        System.out.println("consumed");
        System.exit(0);
    }
}
