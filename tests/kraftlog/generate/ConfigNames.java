// Prints the configs that Kafka defines, of resources that a metadata log holds: resource, name, type. Run by
// `python -m tests.kraftlog.generate`, with all jars of a release on the class path.

import java.lang.reflect.Field;
import org.apache.kafka.common.config.ConfigDef;

public class ConfigNames {
    public static void main(String[] args) throws Exception {
        print("BROKER", (ConfigDef) Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null));
        print("TOPIC", (ConfigDef) Class.forName("org.apache.kafka.storage.internals.log.LogConfig").getMethod("configDefCopy").invoke(null));
        print("CLIENT_METRICS", of("org.apache.kafka.server.metrics.ClientMetricsConfigs"));
        print("GROUP", of("org.apache.kafka.coordinator.group.GroupConfig"));
    }

    static ConfigDef of(String name) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(name);
        } catch (ClassNotFoundException e) {
            return new ConfigDef(); // this release has no such configs
        }
        for (Field field : type.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                return (ConfigDef) field.get(null);
            }
        }
        throw new IllegalStateException("no definitions in " + name);
    }

    static void print(String resource, ConfigDef found) {
        for (ConfigDef.ConfigKey key : found.configKeys().values()) {
            System.out.println(resource + " " + key.name + " " + key.type);
        }
    }
}
