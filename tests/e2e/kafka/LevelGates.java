// Prints the levels of Kafka's features at which one of its own questions has another answer than at the level below:
// feature, level, method. Run by test_effects_of_levels.py, with all jars of a release on the class path.

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Set;

public class LevelGates {
    static final Set<String> OF_THE_LEVEL_ITSELF =
        Set.of("featureLevel", "ordinal", "hashCode", "didMetadataChange", "isProduction");

    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Class<?> type;
            try {
                type = Class.forName("org.apache.kafka.server.common." + name);
            } catch (ClassNotFoundException e) {
                continue; // this release has no such feature
            }
            Object[] levels = type.getEnumConstants();
            Method level = type.getMethod("featureLevel"), feature = type.getMethod("featureName");
            for (int place = 1; place < levels.length; place++) {
                for (Method method : type.getDeclaredMethods()) {
                    boolean asks = method.getReturnType() == boolean.class || method.getReturnType() == short.class;
                    if (method.getParameterCount() == 0 && asks && Modifier.isPublic(method.getModifiers())
                            && !Modifier.isStatic(method.getModifiers())
                            && !OF_THE_LEVEL_ITSELF.contains(method.getName())
                            && !answer(method, levels[place]).equals(answer(method, levels[place - 1]))) {
                        System.out.println(feature.invoke(levels[place]) + " " + level.invoke(levels[place]) + " " + method.getName());
                    }
                }
            }
        }
    }

    static String answer(Method method, Object level) {
        try {
            return String.valueOf(method.invoke(level));
        } catch (ReflectiveOperationException e) {
            return "refused"; // a record that the level does not have
        }
    }
}
