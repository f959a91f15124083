package org.headstart.phone;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** What the app says to its engine: docs/reference/engine.md, docs/reference/schemas/engine.json. */
final class Messages {
    static final int VERSION = 1;
    /** Bytes of a body at most. */
    static final int LONGEST = 65536;

    private Messages() {}

    private static JSONObject of(String kind) throws JSONException {
        return new JSONObject().put("kind", kind);
    }

    static JSONObject hello(String app) throws JSONException {
        return of("hello").put("version", VERSION).put("app", app);
    }

    static JSONObject start(JSONObject settings, JSONObject network, JSONObject device) throws JSONException {
        return of("start").put("descriptors", 1).put("settings", settings).put("network", network).put("device", device);
    }

    /** The next interface, whose descriptor goes along. */
    static JSONObject tun() throws JSONException {
        return of("interface").put("descriptors", 1);
    }

    static JSONObject settings(boolean accelerate, boolean ahead, String race, String cache)
            throws JSONException {
        return new JSONObject().put("accelerate", accelerate).put("ahead", ahead).put("race", race).put("cache", cache);
    }

    static JSONObject network(JSONObject network) throws JSONException {
        return of("network").put("network", network);
    }

    static JSONObject device(JSONObject device) throws JSONException {
        return of("device").put("device", device);
    }

    /** Without a name and with a negative uid where the owner is not known. */
    static JSONObject owner(long question, int uid, String name) throws JSONException {
        JSONObject message = of("owner").put("question", question);
        return uid < 0 ? message : message.put("uid", uid).put("name", name);
    }

    static JSONObject isProtected(long question, boolean ok) throws JSONException {
        return of("protected").put("question", question).put("ok", ok);
    }

    static JSONObject subscribe(boolean on) throws JSONException {
        return of("subscribe").put("on", on);
    }

    static JSONObject exportLines(String app) throws JSONException {
        return of("export").put("what", "lines").put("app", app == null ? JSONObject.NULL : app).put("descriptors", 1);
    }

    static JSONObject exportPackets(boolean on) throws JSONException {
        JSONObject message = of("export").put("what", "pcapng").put("on", on);
        return on ? message.put("descriptors", 1) : message;
    }

    static JSONObject stop() throws JSONException {
        return of("stop");
    }

    static JSONArray strings(Iterable<String> all) {
        JSONArray array = new JSONArray();
        for (String one : all) {
            array.put(one);
        }
        return array;
    }

    /** The frame of a message. */
    static byte[] frame(JSONObject message) {
        byte[] body = message.toString().getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(4 + body.length).putInt(body.length).put(body).array();
    }
}
