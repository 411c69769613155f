import java.nio.charset.StandardCharsets;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.types.RowKind;

/**
 * Java Paimon's core writer over the rows of engine_rows.py, run as a single source file by java_writer.py.
 *
 * <p>Arguments: table path, directory for sort buffers, commits, rows of a commit, keys, whether rows come in halves,
 * after how many commits a full compaction ends one (0 for never), after how many rows the same ones come again. Prints
 * the nanoseconds of each commit, one a line; rows are made outside of that time.
 */
public final class JavaWriter {
    private static final int COLUMNS = 10;
    private static final byte[] PREFIX = "customer number: ".getBytes(StandardCharsets.US_ASCII);
    private static final int DIGITS = 8;
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
        int commits = Integer.parseInt(args[2]);
        int rowsPerCommit = Integer.parseInt(args[3]);
        int keys = Integer.parseInt(args[4]);
        boolean inHalves = Boolean.parseBoolean(args[5]);
        int fullEvery = Integer.parseInt(args[6]);
        long differentRows = Long.parseLong(args[7]);
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser("benchmark");
        try (StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(args[1]));
            HashBucketAssigner assigner = assignerOf(table);
            RowPartitionKeyExtractor keysOf = new RowPartitionKeyExtractor(table.schema());
            GenericRow[] rows = new GenericRow[rowsPerCommit];
            for (int id = 1; id <= commits; id++) {
                for (int i = 0; i < rowsPerCommit; i++) {
                    rows[i] = row(((long) (id - 1) * rowsPerCommit + i) % differentRows, keys, inHalves);
                }
                long start = System.nanoTime();
                for (GenericRow row : rows) {
                    int bucket = 0;
                    if (assigner != null) {
                        bucket = assigner.assign(keysOf.partition(row), keysOf.trimmedPrimaryKey(row).hashCode());
                    }
                    write.write(row, bucket);
                }
                if (fullEvery > 0 && id % fullEvery == 0) {
                    write.compact(BinaryRow.EMPTY_ROW, 0, true);
                }
                if (assigner != null) {
                    assigner.prepareCommit(id);
                }
                commit.commit(id, write.prepareCommit(true, id));
                System.out.println("commit " + (System.nanoTime() - start));
            }
        }
        System.exit(0);
    }

    /** For dynamic buckets, as one assigner of Flink's sink works; null for tables of another kind. */
    private static HashBucketAssigner assignerOf(FileStoreTable table) {
        if (table.bucketMode() != BucketMode.HASH_DYNAMIC) {
            return null;
        }
        return new HashBucketAssigner(
                table.snapshotManager(),
                "benchmark",
                table.store().newIndexFileHandler(),
                1,
                1,
                0,
                table.coreOptions().dynamicBucketTargetRowNum(),
                table.coreOptions().dynamicBucketMaxBuckets());
    }

    private static GenericRow row(long number, int keys, boolean inHalves) {
        GenericRow row = new GenericRow(RowKind.INSERT, COLUMNS);
        for (int column = 0; column < COLUMNS; column++) {
            if (!inHalves || !isLeftOut(column, (int) (number % 2))) {
                row.setField(column, value(mixed(number, column), column, keys));
            }
        }
        return row;
    }

    private static boolean isLeftOut(int column, int half) {
        boolean isOfFirst = column == 1 || column == 2 || column == 4 || column == 6;
        return column != 0 && (half == 0 ? isOfFirst : !isOfFirst);
    }

    private static Object value(long bits, int column, int keys) {
        switch (column) {
            case 0:
                return (int) ((bits >>> 33) % keys);
            case 1:
            case 2:
            case 3:
                return bits >>> 24;
            case 4:
            case 5:
                return (bits >>> 11) * 0x1.0p-53;
            case 9:
                return (int) (bits >>> 40);
            default:
                return text(bits);
        }
    }

    private static BinaryString text(long bits) {
        byte[] text = new byte[PREFIX.length + DIGITS];
        System.arraycopy(PREFIX, 0, text, 0, PREFIX.length);
        for (int digit = 0; digit < DIGITS; digit++) {
            text[PREFIX.length + digit] = HEX[(int) (bits >>> (60 - 4 * digit)) & 15];
        }
        return BinaryString.fromBytes(text);
    }

    private static long mixed(long row, int column) {
        long z = (row * 16 + column + 1) * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
