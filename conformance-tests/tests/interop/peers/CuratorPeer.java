import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Apache Curator's InterProcessMutex, on command. Arguments: servers, path of the lock, session time-out in milliseconds.
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
        InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
        System.out.println("ready");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            System.out.println(answer(mutex, request.split(" ")));
        }
        client.close();
    }

    private static String answer(InterProcessMutex mutex, String[] words) throws Exception {
        if (words[0].equals("acquire")) {
            return mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS) ? "held" : "refused";
        }
        mutex.release();
        return "released";
    }
}
