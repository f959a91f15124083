package org.headstart.phone;

import android.view.View;
import android.widget.EditText;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Arrays;
import org.json.JSONObject;

/** Connects to a host of the owner's choice and shows how long that takes, with the state of the phone. */
public class TestActivity extends Screen {
    private static final int TIMES = 5;
    private static final int PATIENCE = 10_000;

    private EditText host;
    private String result;
    /** The state of the phone when that was measured; null: nothing was. */
    private JSONObject measured;
    private boolean runs;

    @Override
    void fill() {
        row(getString(R.string.test_about), null);
        if (host == null) {
            host = new EditText(this);
            host.setHint(R.string.test_example);
            host.setContentDescription(getString(R.string.test_host));
            host.setSingleLine(true);
        }
        add(host);
        button(R.string.test_run, new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                begin(host.getText().toString().trim());
            }
        });
        if (result != null) {
            row(result, measured == null ? null : state(measured));
        }
    }

    private String state(JSONObject device) {
        String battery =
                device.has("battery") ? getString(R.string.percent, device.optInt("battery")) : getString(R.string.unknown);
        return getString(R.string.test_state, battery, word(device, "power_save"), word(device, "doze"), word(device, "screen"));
    }

    private String word(JSONObject device, String name) {
        return getString(device.optBoolean(name) ? R.string.yes : R.string.no);
    }

    private void begin(final String text) {
        final InetSocketAddress peer = parse(text);
        if (peer == null) {
            tell(getString(R.string.test_wrong), null);
        } else if (!runs) {
            runs = true;
            tell(getString(R.string.test_running), null);
            new Thread("test") {
                @Override
                public void run() {
                    final String told = measure(text, peer);
                    final JSONObject device = DeviceState.look(TestActivity.this);
                    runOnUiThread(new Runnable() {
                        @Override
                        public void run() {
                            runs = false;
                            tell(told, device);
                        }
                    });
                }
            }.start();
        }
    }

    private void tell(String text, JSONObject device) {
        result = text;
        measured = device;
        show();
    }

    /** A host and a port, without a lookup; null if it is none. */
    static InetSocketAddress parse(String text) {
        int colon = text.lastIndexOf(':');
        try {
            int port = colon < 1 ? 0 : Integer.parseInt(text.substring(colon + 1));
            boolean fits = port > 0 && port < 65536;
            return fits ? InetSocketAddress.createUnresolved(text.substring(0, colon), port) : null;
        } catch (NumberFormatException e) {
            return null;
        }
    }

    private String measure(String text, InetSocketAddress peer) {
        double[] times = new double[TIMES];
        int connected = 0;
        String why = "";
        for (int n = 0; n < TIMES; n++) {
            try (Socket socket = new Socket()) {
                InetSocketAddress resolved = new InetSocketAddress(peer.getHostString(), peer.getPort());
                long began = System.nanoTime();
                socket.connect(resolved, PATIENCE);
                times[connected++] = (System.nanoTime() - began) / 1e6;
            } catch (IOException e) {
                why = String.valueOf(e.getMessage());
            }
        }
        Arrays.sort(times, 0, connected);
        return connected == 0
                ? getString(R.string.test_failed, text, why)
                : getString(R.string.test_result, text, connected, TIMES, milliseconds(times[connected / 2]));
    }
}
