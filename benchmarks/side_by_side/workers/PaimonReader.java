import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataField;

/**
 * Reads a Paimon table with Java's core, in one thread: {@code PaimonReader TABLE rows|changes KEY LOWER UPPER TURNS
 * TIMES OUTPUT}; without a range of keys LOWER is not below UPPER.
 *
 * <p>A turn takes each field of each row. The seconds and processor seconds of each go into TIMES, as JSON. One more
 * turn, which is not timed, writes the rows into OUTPUT: the row kind and the fields, parted by tabs.
 */
public final class PaimonReader {
    private final FileStoreTable table;
    private final boolean isChanges;
    private final InternalRow.FieldGetter[] getters;

    private PaimonReader(String path, boolean isChanges) {
        this.table = FileStoreTableFactory.create(LocalFileIO.create(), new org.apache.paimon.fs.Path(path));
        this.isChanges = isChanges;
        List<DataField> fields = table.rowType().getFields();
        this.getters = new InternalRow.FieldGetter[fields.size()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(fields.get(i).type(), i);
        }
    }

    public static void main(String[] args) throws Exception {
        PaimonReader reader = new PaimonReader(args[0], args[1].equals("changes"));
        long lower = Long.parseLong(args[3]);
        long upper = Long.parseLong(args[4]);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        List<String> times = new ArrayList<>();
        for (int turn = 0; turn < Integer.parseInt(args[5]); turn++) {
            long started = System.nanoTime();
            long cpuStarted = system.getProcessCpuTime();
            long[] seen = new long[1];
            reader.read(args[2], lower, upper, row -> {
                for (InternalRow.FieldGetter getter : reader.getters) {
                    seen[0] += getter.getFieldOrNull(row) == null ? 0 : 1;
                }
            });
            double seconds = (System.nanoTime() - started) / 1e9;
            times.add("[" + seconds + ", " + (system.getProcessCpuTime() - cpuStarted) / 1e9 + "]");
            System.out.println(seen[0] + " values");
        }
        Files.writeString(Path.of(args[6]), times.toString());
        StringBuilder line = new StringBuilder();
        try (BufferedWriter output = Files.newBufferedWriter(Path.of(args[7]))) {
            reader.read(args[2], lower, upper, row -> {
                line.setLength(0);
                line.append(row.getRowKind().shortString());
                for (InternalRow.FieldGetter getter : reader.getters) {
                    Object value = getter.getFieldOrNull(row);
                    line.append('\t').append(value == null ? "" : value);
                }
                try {
                    output.append(line).append('\n');
                } catch (java.io.IOException error) {
                    throw new java.io.UncheckedIOException(error);
                }
            });
        }
    }

    private void read(String key, long lower, long upper, Consumer<InternalRow> each) throws Exception {
        if (isChanges) {
            readChanges(each);
            return;
        }
        ReadBuilder builder = table.newReadBuilder();
        if (lower < upper) {
            PredicateBuilder predicates = new PredicateBuilder(table.rowType());
            int column = predicates.indexOf(key);
            builder.withFilter(List.of(predicates.greaterOrEqual(column, lower), predicates.lessThan(column, upper)));
        }
        take(builder.newRead().executeFilter(), builder.newScan().plan(), each);
    }

    private void readChanges(Consumer<InternalRow> each) throws Exception {
        FileStoreTable streamed =
                table.copyWithoutTimeTravel(Map.of("scan.mode", "from-snapshot", "scan.snapshot-id", "1"));
        ReadBuilder builder = streamed.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        scan.restore(1L);
        long last = streamed.snapshotManager().latestSnapshotId();
        while (scan.checkpoint() <= last) {
            take(builder.newRead(), scan.plan(), each);
        }
    }

    private static void take(
            org.apache.paimon.table.source.TableRead read,
            TableScan.Plan plan,
            Consumer<InternalRow> each)
            throws Exception {
        try (RecordReaderIterator<InternalRow> rows = new RecordReaderIterator<>(read.createReader(plan))) {
            while (rows.hasNext()) {
                each.accept(rows.next());
            }
        }
    }
}
