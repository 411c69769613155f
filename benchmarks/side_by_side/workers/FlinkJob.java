import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs SQL statements in a mini cluster of this process: {@code FlinkJob SETTINGS.properties STATEMENTS.sql}.
 * Blank lines part the statements; the last one is the job, whose end it waits for.
 *
 * <p>The Python package with Flink's jars lacks the gateway that Flink's own SQL client needs.
 */
public final class FlinkJob {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(reader);
        }
        Configuration configuration = new Configuration();
        settings.forEach((name, value) -> configuration.setString((String) name, (String) value));
        TableEnvironment environment =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        TableResult last = null;
        for (String statement : Files.readString(Path.of(arguments[1])).split("\n\n")) {
            last = environment.executeSql(statement);
        }
        try {
            last.await();
        } catch (ExecutionException failed) {
            failed.printStackTrace();
            System.exit(1); // the threads of the mini cluster would keep the process
        }
    }
}
