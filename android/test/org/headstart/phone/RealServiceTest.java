package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Locale;
import org.json.JSONArray;
import org.json.JSONObject;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowLooper;

/**
 * The service itself, as RealEngineTest has its session. Apps are programs with user ids of their own, and the kernel says whose a port is,
 * as it does for Android's getConnectionOwnerUid.
 */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35)
public class RealServiceTest {
    private static final int MAIL = 10001;
    private static final int MAPS = 10002;
    private static RealEngineTest.Ground ground;

    /** The service over the ground of that test. */
    public static class Service extends HeadstartVpnService {
        @Override
        public TunBuilder builder() {
            return ground.builder();
        }

        @Override
        public Launcher launcher() {
            return ground;
        }

        @Override
        public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
            return uid(tcp ? "tcp" : "udp", local.getPort());
        }

        @Override
        public boolean protect(int descriptor) {
            return ground.protect(descriptor);
        }

        @Override
        public void close(int descriptor) {
            ground.close(descriptor);
        }

        @Override
        public void below(android.net.Network network) {}

        @Override
        public void later(long milliseconds, Runnable work) {
            // Nobody turns the handle of Robolectric's looper here.
            ground.later(milliseconds, work);
        }

        @Override
        public void changed(Session changed) {
            ground.changed(changed);
        }
    }

    /** The user of a port, as the kernel says; negative: of none. */
    private static int uid(String protocol, int port) {
        String ending = String.format(Locale.ROOT, ":%04X", port);
        for (String table : new String[] {protocol, protocol + "6"}) {
            try {
                byte[] all = Files.readAllBytes(Paths.get("/proc/net/" + table));
                for (String line : new String(all, StandardCharsets.US_ASCII).split("\n")) {
                    String[] fields = line.trim().split("\\s+");
                    // What waits for its last acknowledgements is nobody's.
                    if (fields[1].endsWith(ending) && !fields[9].equals("0")) {
                        return Integer.parseInt(fields[7]);
                    }
                }
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
        return -1;
    }

    private static Process app(int uid, String... words) throws Exception {
        String user = String.valueOf(uid);
        String[] before = {"setpriv", "--reuid", user, "--regid", user, "--clear-groups"};
        String[] all = new String[before.length + words.length];
        System.arraycopy(before, 0, all, 0, before.length);
        System.arraycopy(words, 0, all, before.length, words.length);
        return new ProcessBuilder(all).redirectErrorStream(true).start();
    }

    private static Process curl(int uid, String... words) throws Exception {
        String[] all = new String[words.length + 4];
        System.arraycopy(new String[] {"curl", "-sS", "-m", "60"}, 0, all, 0, 4);
        System.arraycopy(words, 0, all, 4, words.length);
        return app(uid, all);
    }

    /** An app that looks a name up over a socket that stays open until its input ends, so that it is asked about on any machine in time. */
    private static Process lookup(int uid, String name) throws Exception {
        String server = "";
        for (String line : Files.readAllLines(Paths.get("/etc/resolv.conf"))) {
            server = line.startsWith("nameserver ") ? line.split(" ")[1] : server;
        }
        StringBuilder question = new StringBuilder("ab\\001\\000\\000\\001\\000\\000\\000\\000\\000\\000");
        for (String label : name.split("\\.")) {
            question.append(String.format(Locale.ROOT, "\\%03o%s", label.length(), label));
        }
        question.append("\\000\\000\\001\\000\\001");
        return app(uid, "bash", "-c", "exec 3<>/dev/udp/" + server + "/53; printf '" + question + "' >&3; read -r end");
    }

    /** Whether data has come over the connection to that server. */
    private static boolean flows(JSONArray connections) throws Exception {
        boolean flows = false;
        for (int n = 0; n < connections.length(); n++) {
            JSONObject one = connections.getJSONObject(n);
            flows |= one.getString("peer").equals("198.19.0.2:80") && one.getLong("down_bytes") > 0;
        }
        return flows;
    }

    /** Waits for an event of this app; its user is the right one. */
    private static void isOf(Session session, String event, String field, String value, int uid) throws Exception {
        String app = uid == MAIL ? "org.example.mail" : "org.example.maps";
        for (int n = 0; n < 600; n++) {
            for (JSONObject line : RealEngineTest.lines(session)) {
                boolean is = line.optString("event").equals(event) && line.optString("app").equals(app);
                if (is) {
                    assertEquals(line.toString(), uid, line.optInt("user"));
                }
                if (is && line.optString(field).equals(value)) {
                    return;
                }
            }
            Thread.sleep(100);
        }
        throw new AssertionError("no " + event + " with " + value + " of " + app + ": " + RealEngineTest.lines(session));
    }

    @Test
    public void theServiceKnowsWhoseConnectionsAndLookupsAreAndGoesOnAfterAKill() throws Exception {
        RealEngineTest.makeTheInterface();
        ground = new RealEngineTest.Ground();
        assumeTrue("users of this machine can be told apart",
                new RealEngineTest.Ended(app(MAIL, "curl", "--version")).code == 0);
        org.robolectric.shadows.ShadowPackageManager packages =
                org.robolectric.Shadows.shadowOf(RuntimeEnvironment.getApplication().getPackageManager());
        packages.setNameForUid(MAIL, "org.example.mail");
        packages.setNameForUid(MAPS, "org.example.maps");
        org.robolectric.android.controller.ServiceController<Service> service =
                Robolectric.buildService(Service.class).create().startCommand(0, 1);
        ShadowLooper.idleMainLooper();
        Session session = service.get().session();
        session.look(true);
        service.get().network(RealEngineTest.lab());
        ground.until(Session.State.RUNNING);
        Process[] asking = {lookup(MAIL, "v4.lab.example"), lookup(MAPS, "www.lab.example")};
        isOf(session, "lookup", "name", "v4.lab.example", MAIL);
        isOf(session, "lookup", "name", "www.lab.example", MAPS);
        for (Process one : asking) {
            one.getOutputStream().close();
        }
        // Slow enough to be asked about while they are there.
        String[] slow = {"--limit-rate", "200k", "-o", "/dev/null"};
        Process mail = curl(MAIL, slow[0], slow[1], slow[2], slow[3], "http://198.19.0.1/bytes/1000000");
        Process maps = curl(MAPS, slow[0], slow[1], slow[2], slow[3], "http://198.19.0.1/bytes/1000000");
        for (Process one : new Process[] {mail, maps}) {
            RealEngineTest.Ended ended = new RealEngineTest.Ended(one);
            assertEquals(ended.out, 0, ended.code);
        }
        isOf(session, "connection", "peer", "198.19.0.1:80", MAIL);
        isOf(session, "connection", "peer", "198.19.0.1:80", MAPS);
        // What the kernel has of it is read before the error: fast enough for that to be soon over.
        Process cut = curl(MAIL, "--limit-rate", "1m", "-o", "/dev/null", "http://v4.lab.example/bytes/100000000");
        while (!flows(RealEngineTest.board(session, ground, "connections", "198.19.0.2:80"))) {
            Thread.sleep(100);
        }
        ground.states.clear();
        assertEquals("one engine has served all of it", 1, ground.all.size());
        ground.engineProcess().destroyForcibly().waitFor();
        RealEngineTest.Ended ended = new RealEngineTest.Ended(cut);
        assertTrue(ended.code + ": " + ended.out, ended.code == 56 || ended.code == 18);
        RealEngineTest.Ended after = new RealEngineTest.Ended(curl(MAPS, "http://v6.lab.example/"));
        assertEquals(after.out, 0, after.code);
        service.destroy();
        assertTrue("the interface is closed", !ground.closed.isEmpty());
    }
}
