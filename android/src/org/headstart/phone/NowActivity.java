package org.headstart.phone;

import android.content.Intent;
import android.net.VpnService;
import android.view.View;
import java.util.Iterator;
import org.json.JSONArray;
import org.json.JSONObject;

/** The first screen: whether it runs, the apps, and what has woken the engine. */
public class NowActivity extends Screen {
    private static final int ASKED = 1;

    @Override
    boolean isLive() {
        return true;
    }

    @Override
    void fill() {
        HeadstartVpnService service = HeadstartVpnService.running();
        Session session = service == null ? null : service.session();
        row(state(session), null);
        final boolean on = session != null;
        button(on ? R.string.stop : R.string.start, new View.OnClickListener() {
            @Override
            public void onClick(View button) {
                if (on) {
                    startService(new Intent(NowActivity.this, HeadstartVpnService.class).setAction(HeadstartVpnService.STOP));
                } else {
                    ask();
                }
            }
        });
        JSONObject statistics = session == null ? null : session.statistics();
        JSONObject board = statistics == null ? null : statistics.optJSONObject("board");
        if (board != null) {
            apps(board.optJSONArray("apps"));
            wakeups(board.optJSONObject("wakeups"));
        }
    }

    private String state(Session session) {
        if (session == null) {
            return getString(R.string.state_off);
        }
        switch (session.state()) {
            case RUNNING:
                return getString(R.string.state_on_over, session.network().transport);
            case REFUSED:
                return getString(R.string.state_refused);
            case FAILED:
                return getString(R.string.state_failed, why(session));
            case RESTARTING:
                return getString(R.string.state_restarting, why(session));
            default:
                return getString(R.string.state_waiting);
        }
    }

    private String why(Session session) {
        End end = session.end();
        String how = getString(R.string.engine_ended);
        if (end.signal() > 0) {
            how = getString(R.string.engine_killed, end.signal());
        } else if (end.code() >= 0) {
            how = getString(R.string.engine_exited, end.code());
        }
        String said = session.why().isEmpty() ? end.last : session.why();
        return said.isEmpty() ? how : getString(R.string.engine_said, how, said);
    }

    private void apps(JSONArray apps) {
        if (apps == null || apps.length() == 0) {
            row(getString(R.string.no_apps), null);
            return;
        }
        for (int n = 0; n < apps.length(); n++) {
            JSONObject app = apps.optJSONObject(n);
            final String name = app.optString("name");
            JSONObject meters = app.optJSONObject("meters");
            String connect = milliseconds(meters == null ? Double.NaN : meters.optDouble("connect_ms"));
            String trip = milliseconds(meters == null ? Double.NaN : meters.optDouble("rtt_ms"));
            View row = row(name, getString(
                    R.string.app_line, connect, trip, app.optString("accelerated"), app.optString("connections")));
            row.setOnClickListener(new View.OnClickListener() {
                @Override
                public void onClick(View view) {
                    startActivity(new Intent(NowActivity.this, AppActivity.class).putExtra(AppActivity.NAME, name));
                }
            });
        }
    }

    private void wakeups(JSONObject causes) {
        if (causes == null || causes.length() == 0) {
            return;
        }
        StringBuilder text = new StringBuilder();
        for (Iterator<String> names = causes.keys(); names.hasNext(); ) {
            String name = names.next();
            text.append(text.length() == 0 ? "" : "\n").append(getString(R.string.wakeups_of, name, causes.optInt(name)));
        }
        row(getString(R.string.wakeups), text);
    }

    private void ask() {
        Intent question = VpnService.prepare(this);
        if (question == null) {
            onActivityResult(ASKED, RESULT_OK, null);
        } else {
            startActivityForResult(question, ASKED);
        }
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (request == ASKED && result == RESULT_OK) {
            startForegroundService(new Intent(this, HeadstartVpnService.class));
        }
    }
}
