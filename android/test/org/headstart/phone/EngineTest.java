package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.json.JSONObject;
import org.junit.Test;

public class EngineTest implements Engine.Front {
    private final FakeChannel channel = new FakeChannel();
    private final BlockingQueue<String> told = new LinkedBlockingQueue<String>();
    private InetSocketAddress asked;

    @Override
    public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
        asked = peer;
        return tcp ? 10123 : -1;
    }

    @Override
    public String name(int uid) {
        return "org.example.mail";
    }

    @Override
    public boolean protect(int descriptor) {
        return descriptor == 42;
    }

    @Override
    public void told(Engine engine, JSONObject message) {
        told.add(message.optString("kind"));
    }

    @Override
    public void gone(Engine engine, End end) {
        told.add("gone");
    }

    private String next() throws Exception {
        return told.poll(FakeChannel.WAIT, TimeUnit.SECONDS);
    }

    @Test
    public void allThatAnEngineSaysIsHeardHoweverItIsCutAndQuestionsAreAnswered() throws Exception {
        new Engine(channel, this, "test").begin();
        for (JSONObject example : new Schema().examples("to_app")) {
            channel.tell(example, example.optString("kind").equals("protect") ? 42 : -1);
        }
        channel.tell(new JSONObject().put("kind", "weather").put("descriptors", 1), 43);
        channel.tell(new JSONObject().put("kind", "protect").put("question", 9).put("descriptors", 1), 44);
        assertTrue(Schema.same(channel.next(), Messages.hello("test")));
        JSONObject[] said = {channel.next(), channel.next(), channel.next(), channel.next()};
        Arrays.sort(said, new java.util.Comparator<JSONObject>() {
            @Override
            public int compare(JSONObject one, JSONObject other) {
                return (one.optString("kind") + one.optLong("question")).compareTo(other.optString("kind") + other.optLong("question"));
            }
        });
        assertTrue(said[0].toString(), Schema.same(said[0], Messages.owner(7, 10123, "org.example.mail")));
        assertTrue(said[1].toString(), Schema.same(said[1], Messages.owner(8, -1, null)));
        assertTrue(said[2].toString(), Schema.same(said[2], Messages.isProtected(7, true)));
        assertTrue(said[3].toString(), Schema.same(said[3], Messages.isProtected(9, false)));
        for (String kind : new String[] {"hello", "started", "statistics", "exported", "exported", "error", "ended", "weather"}) {
            assertEquals(kind, next());
        }
        channel.end();
        assertEquals("gone", next());
        assertEquals("descriptors are not kept", Arrays.asList(42, 43, 44), channel.released);
        assertEquals(53, asked.getPort());
    }

    @Test
    public void whatIsNoFrameOrNoJsonEndsTheConnection() throws Exception {
        new Engine(channel, this, "test").begin();
        channel.raw(0, 1, 0, 1);
        assertEquals("gone", next());
        assertTrue(channel.closed);
        FakeChannel other = new FakeChannel();
        new Engine(other, this, "test").begin();
        other.raw(0, 0, 0, 2, '{', '!');
        assertEquals("gone", next());
    }

    @Test
    public void framesOfRandomBytesEndTheConnectionOrAreHeardAndNothingElseHappens() throws Exception {
        java.util.Random random = new java.util.Random(1);
        String[] words = {"{", "}", "\"kind\"", ":", ",", "\"owner\"", "\"protect\"", "\"hello\"", "\"question\"", "\"local\"",
            "\"192.0.2.1:80\"", "\"[::1\"", "null", "7", "-1e9", "[", "]", "\"descriptors\"", "99", "\"\u0000\""};
        for (int n = 0; n < 2000; n++) {
            // Half of them of bytes, half of words that messages are made of.
            byte[] body = new byte[1 + random.nextInt(40)];
            random.nextBytes(body);
            if (n % 2 == 0) {
                StringBuilder text = new StringBuilder("{\"kind\":");
                for (int m = random.nextInt(12); m > 0; m--) {
                    text.append(words[random.nextInt(words.length)]);
                }
                body = text.append('}').toString().getBytes("UTF-8");
            }
            final FakeChannel other = new FakeChannel();
            other.raw(0, 0, 0, body.length);
            for (byte one : body) {
                other.raw(one);
            }
            other.end();
            told.clear();
            new Engine(other, this, "test").begin();
            String last = next();
            while (!"gone".equals(last)) {
                assertTrue("the end is never told", last != null);
                last = next();
            }
            assertTrue(other.closed);
        }
    }

    @Test
    public void anEngineThatIsGoneIsToldNothing() throws Exception {
        Engine engine = new Engine(channel, this, "test");
        assertTrue(engine.say(Messages.stop()));
        engine.close();
        assertFalse(engine.say(Messages.stop()));
    }

    @Test
    public void endsAreReadAndNothingIsLookedUp() throws Exception {
        assertEquals("/192.0.2.1:80", Engine.end("192.0.2.1:80").toString());
        assertEquals(443, Engine.end("[2001:db8::1]:443").getPort());
        for (String wrong : new String[] {"", ":80", "192.0.2.1", "[2001:db8::1:443", "192.0.2.1:http"}) {
            try {
                fail(wrong + " is read as " + Engine.end(wrong));
            } catch (IOException e) {
                assertTrue(e.getMessage().startsWith("no "));
            }
        }
    }
}
