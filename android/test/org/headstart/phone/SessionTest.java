package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.json.JSONObject;
import org.junit.Test;

public class SessionTest {
    private final FakeGround ground = new FakeGround();
    private volatile int chosen = Settings.BOTH;
    private final Settings settings = new Settings(FakeGround.untouched()) {
        @Override
        int families() {
            return chosen;
        }
    };
    private final Session session = new Session(ground, settings, "test");

    /** An engine as far as it has started; its start. */
    private JSONObject start(FakeChannel engine) throws Exception {
        engine.tell(new JSONObject("{'kind': 'hello', 'version': 1, 'engine': 'fake'}"), -1);
        assertEquals("hello", engine.next().getString("kind"));
        JSONObject start = engine.next();
        assertEquals("start", start.getString("kind"));
        engine.tell(new JSONObject("{'kind': 'started'}"), -1);
        ground.until(Session.State.RUNNING);
        return start;
    }

    @Test
    public void theInterfaceHasTheFamiliesOfTheNetworkAndTheOtherGoesAsBefore() throws Exception {
        session.network(FakeGround.network("cellular", false, true));
        FakeChannel engine = ground.engine();
        JSONObject start = start(engine);
        assertEquals("cellular", start.getJSONObject("network").getString("transport"));
        assertEquals(
                Arrays.asList("builder", "mtu 1500", "allow IPv4", "address 2001:db8:6865:6164:0:0:0:1/128",
                        "route 0:0:0:0:0:0:0:0/0", "dns 198.51.100.53", "metered false"),
                ground.built);
        ground.built.clear();
        session.network(FakeGround.network("wifi", true, true));
        assertEquals("interface", engine.next().getString("kind"));
        assertEquals("wifi", engine.next().getJSONObject("network").getString("transport"));
        // hello, start and the interfaces, the network
        assertEquals(Arrays.asList(-1, 100, 101, -1),
                Arrays.asList(engine.sent.take(), engine.sent.take(), engine.sent.take(), engine.sent.take()));
        assertTrue("the engine goes on", ground.engines.isEmpty());
        assertTrue(ground.built.toString(), ground.built.containsAll(Arrays.asList("address 10.77.0.1/32", "route 0.0.0.0/0")));
        assertFalse(ground.built.toString(), ground.built.toString().contains("allow"));
        assertEquals("the one before is closed when there is the next", Arrays.asList(100), ground.closed);
    }

    @Test
    public void anInterfaceHasTheServersOfTheNetworkAndSaysWhetherDataCosts() throws Exception {
        session.network(FakeGround.network("wifi", true, true));
        FakeChannel engine = ground.engine();
        start(engine);
        ground.built.clear();
        session.network(FakeGround.network("cellular", true, true));
        assertEquals("interface", engine.next().getString("kind"));
        assertEquals("cellular", engine.next().getJSONObject("network").getString("transport"));
        assertTrue(ground.built.toString(), ground.built.contains("dns 198.51.100.53"));
        NetworkState costly = FakeGround.network("cellular", true, true);
        costly.metered = true;
        session.network(costly);
        assertEquals("interface", engine.next().getString("kind"));
        assertTrue(ground.built.toString(), ground.built.contains("metered true"));
        assertEquals(Arrays.asList(100, 101), ground.closed);
    }

    @Test
    public void aNetworkThatDiffersInNothingThatTheInterfaceSaysIsToldAndTheInterfaceStays() throws Exception {
        session.network(FakeGround.network("wifi", true, true));
        FakeChannel engine = ground.engine();
        start(engine);
        ground.built.clear();
        NetworkState other = FakeGround.network("wifi", true, true);
        other.network = org.robolectric.shadows.ShadowNetwork.newInstance(7);
        session.network(other);
        assertEquals("network", engine.next().getString("kind"));
        assertEquals(Arrays.asList("below " + other.network), ground.built);
        session.network(NetworkState.NONE);
        session.network(other);
        assertEquals("wifi", engine.next().getJSONObject("network").getString("transport"));
        assertTrue(ground.closed.isEmpty() && ground.engines.isEmpty());
    }

    @Test
    public void aNetworkThatAsksForALoginIsLeftAloneUntilItLeadsSomewhere() throws Exception {
        NetworkState portal = FakeGround.network("wifi", true, true);
        portal.captive = true;
        session.network(portal);
        ground.until(Session.State.CAPTIVE);
        assertTrue("no interface", ground.built.isEmpty());
        NetworkState open = FakeGround.network("wifi", true, true);
        open.captive = true;
        open.validated = true;
        session.network(open);
        FakeChannel engine = ground.engine();
        start(engine);
        session.network(portal);
        assertEquals(Arrays.asList(100), ground.closed);
        assertEquals("stop", engine.next().getString("kind"));
        ground.until(Session.State.CAPTIVE);
        engine.end();
        session.network(open);
        start(ground.engine());
        ground.lockdown = true;
        session.network(portal);
        assertEquals("the interface stays", Arrays.asList(100), ground.closed);
    }

    @Test
    public void whereNothingMayPassItByNoFamilyDoes() throws Exception {
        ground.lockdown = true;
        session.network(FakeGround.network("wifi", true, false));
        assertFalse(ground.built.toString(), ground.built.toString().contains("allow"));
    }

    @Test
    public void ofTwoFamiliesOneMayBeChosenAndTheOtherDoesNotPassItBy() throws Exception {
        chosen = Settings.IPV4;
        session.network(FakeGround.network("wifi", true, true));
        JSONObject start = start(ground.engine());
        assertFalse(start.getJSONObject("network").getBoolean("v6"));
        assertTrue(ground.built.toString(), ground.built.contains("address 10.77.0.1/32"));
        assertFalse(ground.built.toString(), ground.built.toString().contains("2001") || ground.built.toString().contains("allow"));
        ground.built.clear();
        session.network(FakeGround.network("cellular", false, true));
        assertTrue("the network has no other", ground.built.toString().contains("address 2001"));
    }

    @Test
    public void settingsThatChangeAreAnotherInterfaceAndAnotherEngine() throws Exception {
        session.renew();
        assertTrue("nothing runs", ground.built.isEmpty());
        session.network(FakeGround.network("wifi", true, true));
        FakeChannel first = ground.engine();
        start(first);
        chosen = Settings.IPV6;
        session.renew();
        assertEquals("stop", first.next().getString("kind"));
        assertFalse(start(ground.engine()).getJSONObject("network").getBoolean("v4"));
        assertEquals(Arrays.asList(100), ground.closed);
    }

    @Test
    public void anEngineThatEndsIsFollowedByAnotherWithTheSameInterface() throws Exception {
        session.look(true);
        session.network(FakeGround.network("wifi", true, false));
        FakeChannel first = ground.engine();
        start(first);
        assertEquals("subscribe", first.next().getString("kind"));
        BlockingQueue<String> answers = new LinkedBlockingQueue<String>();
        assertTrue(session.export(Messages.exportLines(null), 7, answer(answers)));
        assertFalse("one at a time", session.export(Messages.exportLines(null), 7, answer(answers)));
        first.end();
        FakeChannel second = ground.engine();
        start(second);
        assertEquals("a screen that looks goes on looking", "subscribe", second.next().getString("kind"));
        assertEquals("gone", answers.poll(FakeChannel.WAIT, TimeUnit.SECONDS));
        // hello, start with the interface, subscribe
        assertEquals(Arrays.asList(-1, 100, -1), Arrays.asList(second.sent.take(), second.sent.take(), second.sent.take()));
        assertTrue(ground.closed.isEmpty());
        assertTrue(session.export(Messages.exportLines(null), 7, answer(answers)));
        second.tell(new JSONObject("{'kind': 'exported', 'what': 'lines', 'lines': 3}"), -1);
        assertEquals("exported", answers.poll(FakeChannel.WAIT, TimeUnit.SECONDS));
    }

    private Session.Answer answer(final BlockingQueue<String> answers) {
        return new Session.Answer() {
            @Override
            public void said(JSONObject message) {
                assertFalse("a lock is held", Thread.holdsLock(session));
                answers.add(message == null ? "gone" : message.optString("kind"));
            }
        };
    }

    /** The time goes by until another engine is started. */
    private void restarts(long pause) throws Exception {
        if (pause > 0) {
            ground.untilLater();
            ground.pass(pause - 1);
            assertTrue("not before its time", ground.engines.isEmpty());
            ground.pass(1);
        }
    }

    @Test
    public void enginesThatNeverStartAreNotLaunchedWithoutEndAndThePhoneIsOnlineWithoutThem() throws Exception {
        session.network(FakeGround.network("wifi", true, false));
        long[] pauses = {0, 1_000, 5_000, 30_000};
        for (int n = 0; n < 5; n++) {
            FakeChannel engine = ground.engine();
            engine.tell(new JSONObject("{'kind': 'error', 'name': 'descriptor', 'of': 'start', 'what': 'it is none'}"), -1);
            engine.end();
            if (n < 4) {
                restarts(pauses[n]);
            }
        }
        ground.until(Session.State.FAILED);
        assertEquals("it is none", session.why());
        assertEquals("1 last words", session.end().code() + " " + session.end().last);
        assertTrue(ground.engines.isEmpty());
        assertEquals("in longer pauses and at the end", Arrays.asList(100, 101, 102), ground.closed);
        session.network(NetworkState.NONE);
        session.network(FakeGround.network("cellular", true, false));
        FakeChannel engine = ground.engine();
        start(engine);
        assertEquals(Arrays.asList(100, 101, 102), ground.closed);
        engine.end();
        start(ground.engine());
    }

    @Test
    public void whereNothingMayPassItByTheInterfaceStays() throws Exception {
        ground.lockdown = true;
        ground.misses.set(5);
        session.network(FakeGround.network("wifi", true, false));
        for (long pause : new long[] {0, 1_000, 5_000, 30_000}) {
            restarts(pause);
        }
        ground.until(Session.State.FAILED);
        assertTrue(ground.closed.isEmpty());
        session.network(FakeGround.network("wifi", true, false));
        start(ground.engine());
        assertTrue("the same interface", ground.closed.isEmpty());
    }

    @Test
    public void anEngineThatEndsSoonAfterItsStartHasFailedAndOneThatHasRunHalfAMinuteHasNot() throws Exception {
        session.network(FakeGround.network("wifi", true, false));
        FakeChannel engine = ground.engine();
        for (int n = 0; n < 10; n++) {
            start(engine);
            ground.pass(30_000);
            engine.end();
            engine = ground.engine();
        }
        for (long pause : new long[] {1_000, 5_000, 30_000}) {
            start(engine);
            ground.pass(29_999);
            engine.end();
            restarts(pause);
            engine = ground.engine();
        }
        start(engine);
        engine.end();
        ground.until(Session.State.FAILED);
    }

    @Test
    public void anEngineThatSaysNothingWhileStatisticsAreLookedAtIsKilled() throws Exception {
        session.network(FakeGround.network("wifi", true, false));
        FakeChannel engine = ground.engine();
        start(engine);
        ground.pass(60_000);
        assertFalse("nobody looks", engine.closed);
        session.look(true);
        ground.pass(9_999);
        assertFalse(engine.closed);
        ground.pass(1);
        assertTrue(engine.closed);
        FakeChannel next = ground.engine();
        start(next);
        assertEquals(9, session.end().signal());
        session.look(false);
        ground.pass(60_000);
        assertFalse("nobody looks any more", next.closed);
    }

    @Test
    public void aSystemThatRefusesAndAProgramThatIsMissingAreSaid() throws Exception {
        ground.next = -1;
        session.network(FakeGround.network("wifi", true, false));
        ground.until(Session.State.REFUSED);
        ground.next = 100;
        ground.misses.set(5);
        session.network(FakeGround.network("wifi", true, false));
        for (long pause : new long[] {0, 1_000, 5_000, 30_000}) {
            restarts(pause);
        }
        ground.until(Session.State.FAILED);
        assertEquals("no program", session.why());
    }

    @Test
    public void aSessionThatEndsLeavesNothing() throws Exception {
        session.network(FakeGround.network("wifi", true, false));
        FakeChannel engine = ground.engine();
        start(engine);
        engine.tell(new JSONObject("{'kind': 'statistics', 'transport': 'wifi', 'board': {'apps': []}}"), -1);
        while (session.statistics() == null) {
            assertNotNull(ground.states.poll(FakeChannel.WAIT, TimeUnit.SECONDS));
        }
        session.stop();
        assertEquals("stop", engine.next().getString("kind"));
        assertEquals("the interface is closed at once", Arrays.asList(100), ground.closed);
        ground.pass(1_999);
        assertFalse("it may say its last words", engine.closed);
        ground.pass(1);
        assertTrue("and then it is killed", engine.closed);
        session.network(FakeGround.network("cellular", true, true));
        assertEquals(Session.State.OFF, session.state());
        assertNull("nothing is launched any more", ground.engines.poll());
    }

    @Test(timeout = 60_000)
    public void anEngineThatTakesItsTimeToStartHoldsNobodyUpAndIsNotWantedAfterTheEnd() throws Exception {
        ground.start = new CountDownLatch(1);
        session.network(FakeGround.network("wifi", true, false));
        assertEquals("a screen asks meanwhile", Session.State.OFF, session.state());
        session.network(FakeGround.network("cellular", true, true));
        ground.start.countDown();
        FakeChannel wanted = ground.engine();
        JSONObject start = start(wanted);
        assertEquals("cellular", start.getJSONObject("network").getString("transport"));
        // hello, and the start with the interface of that network
        assertEquals(Arrays.asList(-1, 101), Arrays.asList(wanted.sent.take(), wanted.sent.take()));
        assertTrue("one is enough", ground.engines.isEmpty());
        ground.start = new CountDownLatch(1);
        wanted.end();
        ground.until(Session.State.RESTARTING);
        session.stop();
        ground.start.countDown();
        ended(Arrays.asList(ground.engine()), 1);
    }

    /** Waits until so many of these were let go. */
    private static void ended(List<FakeChannel> engines, int wanted) throws Exception {
        for (int closed = 0; closed < wanted; ) {
            Thread.sleep(5);
            closed = 0;
            for (FakeChannel engine : engines) {
                closed += engine.closed ? 1 : 0;
            }
        }
    }

    @Test
    public void packetsAreCapturedAsLongAsTheEngineLives() throws Exception {
        BlockingQueue<String> answers = new LinkedBlockingQueue<String>();
        assertFalse("there is no engine", session.capture(7) || session.captures());
        session.network(FakeGround.network("wifi", true, false));
        FakeChannel first = ground.engine();
        start(first);
        assertFalse("nothing is captured", session.endCapture(answer(answers)));
        assertTrue(session.capture(7) && session.captures());
        assertEquals("pcapng", first.next().getString("what"));
        first.end();
        FakeChannel second = ground.engine();
        start(second);
        assertFalse("it has ended with its engine", session.captures());
        assertTrue(session.capture(7));
        second.tell(new JSONObject("{'kind': 'error', 'name': 'file', 'of': 'export', 'what': 'full'}"), -1);
        while (session.captures()) {
            assertNotNull("a file that cannot be written", ground.states.poll(FakeChannel.WAIT, TimeUnit.SECONDS));
        }
        assertTrue(session.capture(7));
        assertTrue(session.endCapture(answer(answers)));
        assertFalse(session.captures());
        second.tell(new JSONObject("{'kind': 'exported', 'what': 'pcapng'}"), -1);
        assertEquals("exported", answers.poll(FakeChannel.WAIT, TimeUnit.SECONDS));
        assertTrue(session.capture(7));
        session.network(FakeGround.network("wifi", true, true));
        assertTrue("it goes on with another interface", session.captures());
    }
}
