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
        row(state(session), session == null ? null : rule(service));
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

    /** What Android makes of this VPN; null: nothing more than others. */
    private String rule(HeadstartVpnService service) {
        if (service.isLockdown()) {
            return getString(R.string.lockdown);
        }
        return service.isAlwaysOn() ? getString(R.string.always_on) : null;
    }

    private String state(Session session) {
        if (session == null) {
            return getString(R.string.state_off);
        }
        switch (session.state()) {
            case RUNNING:
                return getString(R.string.state_on_over, getString(transport(session.network().transport)));
            case CAPTIVE:
                return getString(R.string.state_captive);
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

    private static int transport(String name) {
        switch (name) {
            case "wifi":
                return R.string.wifi;
            case "cellular":
                return R.string.cellular;
            case "ethernet":
                return R.string.ethernet;
            default:
                return R.string.other_network;
        }
    }

    /** What has woken the engine: its own names are those of `headstart top`. */
    private String cause(String name) {
        switch (name) {
            case "packets of programs":
                return getString(R.string.wakeup_apps);
            case "connections of peers":
                return getString(R.string.wakeup_connections);
            case "datagrams of peers":
                return getString(R.string.wakeup_datagrams);
            case "a race":
                return getString(R.string.wakeup_race);
            case "a lookup ahead":
                return getString(R.string.wakeup_lookup);
            case "the app":
            case "control":
                return getString(R.string.wakeup_control);
            case "statistics":
                return getString(R.string.wakeup_statistics);
            default:
                return getString(R.string.wakeup_timer, name);
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
            String line = getString(
                    R.string.app_line, connect, trip, app.optString("accelerated"), app.optString("connections"));
            if (app.optInt("ahead") > 0 || app.optInt("cached") > 0) {
                line += "\n" + getString(R.string.app_ahead, app.optInt("ahead"), app.optInt("cached"), app.optInt("lookups"));
            }
            View row = row(name, line);
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
            text.append(text.length() == 0 ? "" : "\n").append(getString(R.string.wakeups_of, cause(name), causes.optInt(name)));
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
