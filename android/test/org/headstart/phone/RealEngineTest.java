package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.json.JSONArray;
import org.json.JSONObject;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Test;

/**
 * The session of the service, a socket, the engine, a real TUN and curl as an app, inside the lab's client: `headstart lab shell` is around it.
 * Instead of VpnService.Builder there is a TUN that is made here, instead of protect() a mark that a rule knows.
 */
public class RealEngineTest {
    private static final int OURS = 0x77;
    private static final int WAIT = 60;
    private static int tun;

    @BeforeClass
    public static void makeTheInterface() throws Exception {
        tun = make("phone0");
        for (String version : new String[] {"-4", "-6"}) {
            run("ip", version, "rule", "add", "not", "fwmark", "0x77", "lookup", "77");
        }
    }

    /** An interface that takes the place of the one before. */
    private static int make(String name) throws Exception {
        int made = Linux.tun(name);
        run("ip", "link", "set", name, "mtu", String.valueOf(Session.MTU), "up");
        run("ip", "addr", "add", Session.V4 + "/32", "dev", name);
        run("ip", "-6", "addr", "add", Session.V6 + "/128", "dev", name, "nodad");
        for (String version : new String[] {"-4", "-6"}) {
            String own = version.equals("-4") ? Session.V4 : Session.V6;
            run("ip", version, "route", "replace", "default", "dev", name, "table", "77", "src", own);
        }
        return made;
    }

    @AfterClass
    public static void takeItAway() {
        Linux.close(tun);
    }

    private static void run(String... words) throws Exception {
        Ended ended = new Ended(new ProcessBuilder(words).redirectErrorStream(true).start());
        assertEquals(Arrays.toString(words) + ": " + ended.out, 0, ended.code);
    }

    /** How a program ended. */
    static final class Ended {
        final String out;
        final int code;

        Ended(Process process) throws Exception {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            InputStream from = process.getInputStream();
            byte[] some = new byte[65536];
            for (int got = from.read(some); got >= 0; got = from.read(some)) {
                all.write(some, 0, got);
            }
            out = new String(all.toByteArray(), StandardCharsets.UTF_8);
            code = process.waitFor();
        }
    }

    static Process curl(String... words) throws IOException {
        List<String> all = new ArrayList<String>(Arrays.asList("curl", "-sS", "-m", String.valueOf(WAIT)));
        all.addAll(Arrays.asList(words));
        return new ProcessBuilder(all).redirectErrorStream(true).start();
    }

    /** The ground with real engines and the real interface, where each flow is the one app's. */
    static final class Ground extends FakeGround {
        final BlockingQueue<Process> processes = new LinkedBlockingQueue<Process>();
        final List<InetSocketAddress> asked = Collections.synchronizedList(new ArrayList<InetSocketAddress>());
        final List<Process> all = Collections.synchronizedList(new ArrayList<Process>());
        volatile boolean protects = true;
        volatile int marked;

        Ground() {
            next = tun;
        }

        @Override
        public Channel launch() throws IOException {
            // The program, and before it what runs it where this machine cannot.
            List<String> words = Arrays.asList(System.getProperty("headstart.engine").split(" "));
            Door.Maker doors = new Door.Maker() {
                @Override
                public Door open(String name) {
                    return new Linux.Listener(name) {
                        @Override
                        public Channel accept(Child engine) throws IOException {
                            processes.add(engine.process());
                            all.add(engine.process());
                            return super.accept(engine);
                        }
                    };
                }
            };
            Child.Log log = new Child.Log() {
                @Override
                public void line(String text) {
                    System.out.println("engine: " + text);
                }
            };
            return new NativeLauncher(words, doors, WAIT * 1000, log).launch();
        }

        @Override
        public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
            asked.add(peer);
            return 10123;
        }

        @Override
        public String name(int uid) {
            return "org.example.mail";
        }

        @Override
        public boolean protect(int descriptor) {
            Linux.mark(descriptor, OURS);
            marked++;
            return protects;
        }

        @Override
        public long now() {
            return System.nanoTime() / 1_000_000;
        }

        @Override
        public void later(final long milliseconds, final Runnable work) {
            Thread timer = new Thread("timer") {
                @Override
                public void run() {
                    try {
                        sleep(milliseconds);
                    } catch (InterruptedException e) {
                        return;
                    }
                    work.run();
                }
            };
            timer.setDaemon(true);
            timer.start();
        }

        @Override
        public void close(int descriptor) {
            // The interface is the test class's.
            closed.add(descriptor);
        }

        Process engineProcess() throws Exception {
            return processes.poll(WAIT, TimeUnit.SECONDS);
        }
    }

    static NetworkState lab() throws Exception {
        NetworkState state = FakeGround.network("wifi", true, true);
        state.id = "lab";
        state.validated = true;
        return state;
    }

    private static void over(Session session, Ground ground) throws Exception {
        session.stop();
        assertFalse("the interface is closed at once", ground.closed.isEmpty());
        for (Process one : ground.all) {
            assertTrue("an engine does not end", one.waitFor(WAIT, TimeUnit.SECONDS));
        }
    }

    /** The lines of this name in statistics, as soon as there is such a text among them. */
    static JSONArray board(Session session, Ground ground, String name, String text) throws Exception {
        for (int n = 0; n < 2 * WAIT; n++) {
            JSONObject told = session.statistics();
            JSONArray lines = told == null ? new JSONArray() : told.getJSONObject("board").getJSONArray(name);
            if (lines.toString().contains(text)) {
                return lines;
            }
            assertNotNull("no statistics are told", ground.states.poll(WAIT, TimeUnit.SECONDS));
        }
        throw new IllegalStateException("no " + text + " among " + name + ": " + session.statistics());
    }

    static List<JSONObject> lines(Session session) throws Exception {
        final BlockingQueue<String> said = new LinkedBlockingQueue<String>();
        File file = File.createTempFile("lines", ".jsonl");
        Session.Answer answer = new Session.Answer() {
            @Override
            public void said(JSONObject message) {
                said.add(String.valueOf(message));
            }
        };
        try (RandomAccessFile open = new RandomAccessFile(file, "rw")) {
            // The number of the descriptor is what /proc says, for Java does not.
            int number = descriptor(file);
            assertTrue(session.export(Messages.exportLines(null), number, answer));
            assertTrue(said.poll(WAIT, TimeUnit.SECONDS).contains("exported"));
        }
        List<JSONObject> lines = AppActivity.read(file);
        assertTrue(file.delete());
        return lines;
    }

    private static int descriptor(File file) throws IOException {
        for (File one : new File("/proc/self/fd").listFiles()) {
            if (one.getCanonicalFile().equals(file.getCanonicalFile())) {
                return Integer.parseInt(one.getName());
            }
        }
        throw new IOException(file + " is not open");
    }

    static JSONObject until(Session session, String event, String field, String value) throws Exception {
        for (int n = 0; n < WAIT * 10; n++) {
            for (JSONObject line : lines(session)) {
                if (line.optString("event").equals(event) && line.optString(field).equals(value)) {
                    return line;
                }
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("no " + event + " with " + field + " " + value + ": " + lines(session));
    }

    @Test
    public void anAppFetchesAndItsLookupsAndConnectionsAreMeasured() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.device(new JSONObject().put("battery", 55));
        session.look(true);
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Ended page = new Ended(curl("http://v4.lab.example/bytes/200000", "-o", "/dev/null", "-w", "%{size_download}"));
        assertEquals(page.out, 0, page.code);
        assertEquals("200000", page.out);
        JSONObject lookup = until(session, "lookup", "name", "v4.lab.example");
        assertTrue(lookup.toString(), lookup.getDouble("took_ms") >= 10);
        JSONObject connection = until(session, "connection", "app", "org.example.mail");
        assertEquals(10123, connection.getInt("user"));
        assertTrue(connection.toString(), connection.getDouble("connect_ms") >= 10);
        assertEquals(55, connection.getJSONObject("device").getInt("battery"));
        JSONArray apps = board(session, ground, "apps", "org.example.mail");
        assertEquals("org.example.mail", apps.getJSONObject(0).getString("name"));
        assertTrue(ground.marked > 0 && !ground.asked.isEmpty());
        over(session, ground);
        assertEquals(0, ground.engineProcess().waitFor());
    }

    @Test
    public void anAppThatWaitsForASilentAddressIsLedToAnotherOne() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.network(lab());
        ground.until(Session.State.RUNNING);
        String silent = "http://black-hole-v6.lab.example/";
        // An engine that hears of the name and of the owner in time races; where this machine was too slow for that, the next try finds them.
        JSONObject raced = null;
        for (int n = 0; n < 10 && raced == null; n++) {
            Ended ended = new Ended(curl("--happy-eyeballs-timeout-ms", "60000", "-m", "5", silent));
            for (JSONObject line : lines(session)) {
                raced = ended.code == 0 && !line.isNull("accelerated") ? line : raced;
            }
        }
        assertFalse("never raced", raced == null);
        assertEquals("198.19.0.6:80", raced.getString("accelerated"));
        over(session, ground);
    }

    @Test
    public void anEngineThatIsKilledIsFollowedByAnother() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Process first = ground.engineProcess();
        first.destroyForcibly().waitFor();
        Ended page = new Ended(curl("http://v4.lab.example/"));
        assertEquals(page.out, 0, page.code);
        assertTrue(ground.engineProcess().isAlive());
        over(session, ground);
    }

    @Test
    public void onANetworkWithIpv6OnlyThatIsForwardedAndIpv4GoesAsBefore() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        NetworkState state = lab();
        state.v4 = false;
        // What allowFamily() does on a phone.
        run("ip", "-4", "rule", "del", "not", "fwmark", "0x77", "lookup", "77");
        try {
            session.network(state);
            ground.until(Session.State.RUNNING);
            assertTrue(ground.built.toString(), ground.built.contains("allow IPv4"));
            assertFalse(ground.built.toString(), ground.built.toString().contains("address 10."));
            Ended page = new Ended(curl("http://v6.lab.example/bytes/200000", "-o", "/dev/null", "-w", "%{size_download}"));
            assertEquals(page.out, "200000", page.out);
            Ended other = new Ended(curl("http://v4.lab.example/"));
            assertEquals(other.out, 0, other.code);
            JSONObject line = until(session, "connection", "app", "org.example.mail");
            assertTrue(line.toString(), line.getString("peer").startsWith("[") && line.getString("local").contains("2001:db8:6865"));
            assertFalse("IPv4 passes it by", lines(session).toString().contains("198.19.0.2"));
        } finally {
            run("ip", "-4", "rule", "add", "not", "fwmark", "0x77", "lookup", "77");
        }
        over(session, ground);
    }

    private static void stopProcess(Process process) throws Exception {
        run("kill", "-STOP", String.valueOf(process.pid()));
    }

    @Test
    public void anEngineThatHangsIsKilledAfterTheEnd() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Process engine = ground.engineProcess();
        stopProcess(engine);
        over(session, ground);
        assertEquals("killed", 128 + 9, engine.exitValue());
    }

    @Test
    public void anEngineThatHangsWhileAScreenWaitsForStatisticsIsFollowedByAnother() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Process engine = ground.engineProcess();
        stopProcess(engine);
        session.look(true);
        assertTrue(engine.waitFor(WAIT, TimeUnit.SECONDS));
        ground.until(Session.State.RUNNING);
        assertEquals(9, session.end().signal());
        Ended page = new Ended(curl("http://v4.lab.example/"));
        assertEquals(page.out, 0, page.code);
        over(session, ground);
    }

    @Test
    public void aPhoneThatDoesNotProtectLetsNothingOut() throws Exception {
        Ground ground = new Ground();
        ground.protects = false;
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Ended page = new Ended(curl("http://198.19.0.1/"));
        assertEquals(page.out, 7, page.code);
        assertTrue("asked " + ground.marked + " times", ground.marked < 10);
        over(session, ground);
    }

    @Test
    public void aNetworkWithOtherServersGetsAnInterfaceWithTheseAndTheEngineGoesOnWithIt() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.look(true);
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Process transfer = curl("--limit-rate", "500k", "-o", "/dev/null", "-w", "%{size_download}", "http://v4.lab.example/bytes/2000000");
        board(session, ground, "connections", "198.19.0.2:80");
        NetworkState other = lab();
        other.transport = "cellular";
        other.dns = Arrays.asList(InetAddress.getByName("198.51.100.53"), InetAddress.getByName("192.0.2.53"));
        int first = tun;
        tun = make("phone1");
        ground.next = tun;
        session.network(other);
        assertTrue(ground.built.toString(), ground.built.containsAll(Arrays.asList("dns 198.51.100.53", "dns 192.0.2.53")));
        assertEquals(Arrays.asList(first), ground.closed);
        Linux.close(first);
        Ended page = new Ended(curl("http://v4.lab.example/"));
        assertEquals(page.out, 0, page.code);
        Ended ended = new Ended(transfer);
        assertEquals(ended.out, 0, ended.code);
        assertEquals("2000000", ended.out);
        assertEquals("one engine", 1, ground.processes.size());
        ground.closed.clear();
        over(session, ground);
    }

    @Test
    public void aNetworkThatChangesUnderATransferEndsIt() throws Exception {
        Ground ground = new Ground();
        Session session = new Session(ground, new Settings(FakeGround.untouched()), "test");
        session.look(true);
        session.network(lab());
        ground.until(Session.State.RUNNING);
        Process transfer = curl("--limit-rate", "50k", "-o", "/dev/null", "http://v4.lab.example/bytes/100000000");
        board(session, ground, "connections", "198.19.0.2:80");
        NetworkState other = lab();
        other.id = "other";
        other.transport = "cellular";
        other.addresses = Collections.singletonList(InetAddress.getByName("203.0.113.7"));
        session.network(other);
        Ended ended = new Ended(transfer);
        assertTrue(ended.code + ": " + ended.out, ended.code == 56 || ended.code == 18);
        over(session, ground);
    }
}
