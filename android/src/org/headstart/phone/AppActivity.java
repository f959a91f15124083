package org.headstart.phone;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** One app: what is open, and its connections and lookups that have ended. */
public class AppActivity extends Screen {
    static final String NAME = "name";
    /** Lines that are shown at most. */
    private static final int MOST = 200;

    private List<JSONObject> ended;

    @Override
    boolean isLive() {
        return true;
    }

    @Override
    void fill() {
        String name = getIntent().getStringExtra(NAME);
        setTitle(name);
        HeadstartVpnService service = HeadstartVpnService.running();
        Session session = service == null ? null : service.session();
        if (session == null) {
            row(getString(R.string.needs_session), null);
            return;
        }
        if (ended == null) {
            ended = Collections.emptyList();
            fetch(session, name);
        }
        heading(R.string.open_connections);
        JSONObject statistics = session.statistics();
        JSONArray open = statistics == null ? null : statistics.optJSONObject("board").optJSONArray("connections");
        int shown = 0;
        for (int n = 0; open != null && n < open.length(); n++) {
            JSONObject line = open.optJSONObject(n);
            if (line.optString("app").equals(name)) {
                connection(line, line.optJSONObject("meters"));
                shown++;
            }
        }
        if (shown == 0) {
            row(getString(R.string.none), null);
        }
        heading(R.string.ended);
        for (JSONObject line : ended) {
            if (line.optString("event").equals("lookup")) {
                String took = line.optBoolean("cached") ? getString(R.string.lookup_cached) : milliseconds(line.optDouble("took_ms"));
                row(getString(R.string.lookup_line, line.optString("name"), took), null);
            } else {
                connection(line, line);
            }
        }
        if (ended.isEmpty()) {
            row(getString(R.string.none), null);
        }
    }

    private void connection(JSONObject line, JSONObject meters) {
        String peer = line.optString("peer");
        String first = line.isNull("accelerated") ? peer : getString(
                line.optBoolean("ahead") ? R.string.connection_ahead : R.string.connection_raced, peer, line.optString("accelerated"));
        String connect = milliseconds(meters == null ? Double.NaN : meters.optDouble("connect_ms"));
        row(first, getString(R.string.connection_line, connect, line.optString("up_bytes"), line.optString("down_bytes")));
    }

    private void fetch(Session session, String name) {
        Export.lines(session, new File(Export.folder(this), "app.jsonl"), name, new Export.Done() {
            @Override
            public void written(File file) {
                take(read(file));
            }

            @Override
            public void failed(String why) {
                // Nothing is shown; the next visit may be luckier.
            }
        });
    }

    void take(final List<JSONObject> lines) {
        runOnUiThread(new Runnable() {
            @Override
            public void run() {
                ended = lines;
                show();
            }
        });
    }

    /** The latest lines of a file, the latest first. */
    static List<JSONObject> read(File file) {
        List<JSONObject> lines = new ArrayList<JSONObject>();
        try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                lines.add(new JSONObject(line));
            }
        } catch (IOException | JSONException e) {
            // A file that was cut short: what is there is shown.
        }
        Collections.reverse(lines);
        return lines.size() > MOST ? lines.subList(0, MOST) : lines;
    }
}
