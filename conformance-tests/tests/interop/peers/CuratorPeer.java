import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * Apache Curator's locks, on command. Arguments: servers, path of the lock, session timeout in milliseconds; "read" or "write" for
 * the locks of InterProcessReadWriteLock, none for InterProcessMutex.
 *
 * Requests, one a line: "acquire MILLIS" is answered "held" or "refused"; "release" is answered "released".
 */
public class CuratorPeer {
    public static void main(String[] arguments) throws Exception {
        int session = Integer.parseInt(arguments[2]);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], session, 5000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = lock(client, arguments[1], arguments.length > 3 ? arguments[3] : "");
        System.out.println("ready");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            System.out.println(answer(mutex, request.split(" ")));
        }
        client.close();
    }

    private static InterProcessMutex lock(CuratorFramework client, String path, String kind) {
        InterProcessReadWriteLock readWrite = new InterProcessReadWriteLock(client, path);
        switch (kind) {
            case "read": return readWrite.readLock();
            case "write": return readWrite.writeLock();
            default: return new InterProcessMutex(client, path);
        }
    }

    private static String answer(InterProcessMutex mutex, String[] words) throws Exception {
        if (words[0].equals("acquire")) {
            return mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS) ? "held" : "refused";
        }
        mutex.release();
        return "released";
    }
}
