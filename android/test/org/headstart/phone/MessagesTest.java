package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.json.JSONObject;
import org.junit.Test;

/** What the app says is what the schema describes, which the engine's own tests read too. */
public class MessagesTest {
    private static JSONObject network() throws Exception {
        NetworkState state = new NetworkState();
        state.id = "wlan-4f2a";
        state.transport = "wifi";
        state.validated = true;
        state.addresses = Arrays.asList(
                java.net.InetAddress.getByName("192.0.2.7"), java.net.InetAddress.getByName("2001:db8::7"));
        state.dns = Arrays.asList(java.net.InetAddress.getByName("192.0.2.53"));
        state.v4 = true;
        state.v6 = true;
        // How an address is written is its own business: both sides read all ways.
        return new JSONObject(state.json().toString().replace("2001:db8:0:0:0:0:0:7", "2001:db8::7"));
    }

    private static JSONObject device() throws Exception {
        return new JSONObject("{'battery': 81, 'charging': false, 'power_save': false, 'doze': false, 'screen': true, 'thermal': 0}");
    }

    @Test
    public void eachExampleOfTheSchemaIsSomethingThatTheAppSays() throws Exception {
        JSONObject unknown = new JSONObject("{'kind': 'owner', 'question': 8, 'uid': null, 'name': null}");
        List<JSONObject> said = new ArrayList<JSONObject>(Arrays.asList(
                Messages.hello("org.headstart 0.1.0"),
                Messages.start(Messages.settings(true, true, "adaptive", "ttl"), network(), device()),
                Messages.network(network()),
                Messages.device(device()),
                Messages.owner(7, 10123, "org.example.mail"),
                Messages.tun(),
                Messages.isProtected(7, true),
                Messages.subscribe(true),
                Messages.exportLines(null).put("on", true),
                Messages.exportLines("org.example.mail").put("on", true),
                Messages.exportPackets(true).put("app", JSONObject.NULL),
                Messages.exportPackets(false).put("app", JSONObject.NULL),
                Messages.stop()));
        List<String> missing = new ArrayList<String>();
        int found = 0;
        for (JSONObject example : new Schema().examples("to_engine")) {
            boolean is = false;
            for (JSONObject message : said) {
                is |= Schema.same(message, example);
            }
            found += is ? 1 : 0;
            if (!is) {
                missing.add(example.toString());
            }
        }
        // What fields may be left out is shown by further examples: a start with fewer, a device of which less is known, no owner.
        assertEquals(missing.toString(), said.size(), found);
        assertEquals(missing.toString(), 3, missing.size());
        assertTrue(missing.toString(), !Schema.same(Messages.owner(8, -1, null), unknown) && !Messages.owner(8, -1, null).has("uid"));
    }

    @Test
    public void aFrameIsItsLengthAndItsBody() throws Exception {
        byte[] frame = Messages.frame(new JSONObject().put("kind", "é"));
        assertEquals(frame.length - 4, java.nio.ByteBuffer.wrap(frame).getInt());
        assertEquals("{\"kind\":\"é\"}", new String(frame, 4, frame.length - 4, "UTF-8"));
    }
}
