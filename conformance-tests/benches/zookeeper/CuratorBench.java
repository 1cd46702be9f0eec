import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Hand-overs of Apache Curator's InterProcessMutex among threads of one session.
 *
 * Arguments: servers, path of the lock, players, milliseconds of warm-up. Then reads lines: each is a number of
 * milliseconds to measure, and is answered by the number of hand-overs, their median and their 99th percentile in
 * nanoseconds.
 */
public class CuratorBench {
    private static final AtomicLong released = new AtomicLong();
    private static volatile ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 10000, 5000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        for (int player = 0; player < Integer.parseInt(arguments[2]); player++) {
            Thread thread = new Thread(() -> play(new InterProcessMutex(client, arguments[1])));
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(Long.parseLong(arguments[3]));
        System.out.println("ready");
        java.util.Scanner requests = new java.util.Scanner(System.in);
        while (requests.hasNextLong()) {
            times = new ConcurrentLinkedQueue<>();
            Thread.sleep(requests.nextLong());
            long[] sorted = times.stream().mapToLong(Long::longValue).toArray();
            Arrays.sort(sorted);
            int count = sorted.length;
            System.out.println(count + " " + sorted[count / 2] + " " + sorted[count * 99 / 100]);
        }
        System.exit(0);
    }

    private static void play(InterProcessMutex mutex) {
        try {
            while (true) {
                mutex.acquire();
                long last = released.get();
                if (last != 0) {
                    times.add(System.nanoTime() - last);
                }
                released.set(System.nanoTime());
                mutex.release();
            }
        } catch (Exception end) {
            System.exit(1);
        }
    }
}
