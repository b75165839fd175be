// Writes records with Kafka's own classes: random values, one line of JSON per record, for the decoder's tests.
//
//   java -cp kafka-metadata:kafka-clients:kafka-server-common:jackson-*:slf4j-api WriteRecords.java > <version>.jsonl
//
// Fields a version does not have stay at their defaults; a quarter of the others does too, so that tagged fields are
// sometimes absent; some structs get an unknown tag. The seed is fixed: the same classes give the same file.

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class WriteRecords {
    static final Random RANDOM = new Random(20261121);
    static final int EACH = 8;

    public static void main(String[] args) throws Exception {
        for (MetadataRecordType type : MetadataRecordType.values()) {
            write(type.newMetadataRecord().getClass().getName(), false);
        }
        for (String name : List.of("LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord",
                "KRaftVersionRecord", "VotersRecord")) {
            write("org.apache.kafka.common.message." + name, true);
        }
    }

    static void write(String className, boolean control) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(className);
        } catch (ClassNotFoundException e) {
            return; // this release has no such record
        }
        ApiMessage first = (ApiMessage) type.getDeclaredConstructor().newInstance();
        Method toJson = Class.forName(className + "JsonConverter").getMethod("write", type, short.class);
        for (short version = first.lowestSupportedVersion(); version <= first.highestSupportedVersion(); version++) {
            for (int i = 0; i < EACH; i++) {
                ApiMessage message = (ApiMessage) fill((Message) type.getDeclaredConstructor().newInstance(), version);
                if (control) {
                    type.getMethod("setVersion", short.class).invoke(message, version);
                }
                byte[] bytes = control ? plain(message, version) : framed(message, version);
                System.out.println("{\"type\":\"" + type.getSimpleName() + "\",\"version\":" + version + ",\"json\":"
                        + (JsonNode) toJson.invoke(null, message, version) + ",\"hex\":\""
                        + HexFormat.of().formatHex(bytes) + "\"}");
            }
        }
    }

    static byte[] framed(ApiMessage message, short version) {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ApiMessageAndVersion value = new ApiMessageAndVersion(message, version);
        ByteBufferAccessor out = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(serde.recordSize(value, cache)));
        serde.write(value, cache, out);
        return out.buffer().array();
    }

    static byte[] plain(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor out = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(message.size(cache, version)));
        message.write(out, cache, version);
        return out.buffer().array();
    }

    // Sets every field in turn and takes back what the version refuses to write.
    static Message fill(Message message, short version) throws Exception {
        Method[] methods = message.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method setter : methods) {
            String name = setter.getName();
            if (!name.startsWith("set") || setter.getParameterCount() != 1 || name.equals("setNext") || name.equals("setPrev")) {
                continue;
            }
            Method getter = message.getClass().getMethod(Character.toLowerCase(name.charAt(3)) + name.substring(4));
            Object before = getter.invoke(message);
            if (RANDOM.nextInt(4) == 0) {
                continue;
            }
            setter.invoke(message, value(setter, version));
            try {
                plain(message, version);
            } catch (org.apache.kafka.common.errors.UnsupportedVersionException e) {
                setter.invoke(message, before);
            }
        }
        if (RANDOM.nextInt(4) == 0) {
            byte[] content = new byte[RANDOM.nextInt(200)];
            RANDOM.nextBytes(content);
            message.unknownTaggedFields().add(new RawTaggedField(10 + RANDOM.nextInt(300), content));
        }
        return message;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Method setter, short version) throws Exception {
        Class<?> type = setter.getParameterTypes()[0];
        if (type == boolean.class) return RANDOM.nextBoolean();
        if (type == byte.class) return (byte) RANDOM.nextInt();
        if (type == short.class) return (short) RANDOM.nextInt();
        if (type == int.class && setter.getName().equals("setPort")) return RANDOM.nextInt(65536);
        if (type == int.class) return RANDOM.nextInt();
        if (type == long.class) return RANDOM.nextLong();
        if (type == double.class) return RANDOM.nextInt(5) == 0 ? Double.POSITIVE_INFINITY : RANDOM.nextGaussian() * 1e9;
        if (type == byte[].class) {
            byte[] bytes = new byte[RANDOM.nextInt(150)];
            RANDOM.nextBytes(bytes);
            return bytes;
        }
        if (type == String.class) return "n\u00e4me-" + "x".repeat(RANDOM.nextInt(RANDOM.nextInt(3) == 0 ? 150 : 9)) + RANDOM.nextInt(1000000);
        if (type == Uuid.class) return new Uuid(RANDOM.nextLong(), RANDOM.nextLong());
        if (Collection.class.isAssignableFrom(type)) {
            Collection items = type == List.class ? new ArrayList() : (Collection) type.getDeclaredConstructor().newInstance();
            Class<?> item = type == List.class
                    ? (Class<?>) ((ParameterizedType) setter.getGenericParameterTypes()[0]).getActualTypeArguments()[0]
                    : (Class<?>) ((ParameterizedType) type.getGenericSuperclass()).getActualTypeArguments()[0];
            for (int i = RANDOM.nextInt(4); i > 0; i--) {
                items.add(item == Uuid.class ? new Uuid(RANDOM.nextLong(), RANDOM.nextLong())
                        : item == Integer.class ? (Object) RANDOM.nextInt()
                        : item == String.class ? "r" + RANDOM.nextInt()
                        : fill((Message) item.getDeclaredConstructor().newInstance(), version));
            }
            return items;
        }
        return fill((Message) type.getDeclaredConstructor().newInstance(), version);
    }
}
