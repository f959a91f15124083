package org.headstart.phone;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.json.JSONArray;
import org.json.JSONObject;

/** docs/reference/schemas/engine.json: the examples of each kind, and whether a message is like one of them. */
final class Schema {
    private final JSONObject definitions;

    Schema() throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("headstart.schema")));
        definitions = new JSONObject(new String(text, StandardCharsets.UTF_8)).getJSONObject("$defs");
    }

    /** The examples of what a side says, "to_engine" or "to_app". */
    List<JSONObject> examples(String side) throws Exception {
        List<JSONObject> all = new ArrayList<JSONObject>();
        JSONArray kinds = definitions.getJSONObject(side).getJSONArray("anyOf");
        for (int n = 0; n < kinds.length(); n++) {
            String[] place = kinds.getJSONObject(n).getString("$ref").split("/");
            JSONArray examples = definitions.getJSONObject(place[place.length - 1]).getJSONArray("examples");
            for (int m = 0; m < examples.length(); m++) {
                all.add(examples.getJSONObject(m));
            }
        }
        return all;
    }

    /** Whether two values are the same, whatever the order of their fields. */
    static boolean same(Object one, Object other) throws Exception {
        if (one instanceof JSONObject && other instanceof JSONObject) {
            JSONObject left = (JSONObject) one;
            JSONObject right = (JSONObject) other;
            boolean is = left.length() == right.length();
            for (Iterator<String> names = left.keys(); is && names.hasNext(); ) {
                String name = names.next();
                is = right.has(name) && same(left.get(name), right.get(name));
            }
            return is;
        } else if (one instanceof JSONArray && other instanceof JSONArray) {
            JSONArray left = (JSONArray) one;
            JSONArray right = (JSONArray) other;
            boolean is = left.length() == right.length();
            for (int n = 0; is && n < left.length(); n++) {
                is = same(left.get(n), right.get(n));
            }
            return is;
        }
        return one.toString().equals(other.toString());
    }
}
