package org.headstart.phone;

import android.app.Activity;
import android.content.Intent;
import android.os.Bundle;
import android.view.Menu;
import android.view.MenuItem;
import android.view.View;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.TextView;

/** A screen: rows below each other, and the way to the other screens. */
abstract class Screen extends Activity {
    private LinearLayout rows;

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        setContentView(R.layout.screen);
        rows = (LinearLayout) findViewById(R.id.rows);
    }

    @Override
    protected void onResume() {
        super.onResume();
        HeadstartVpnService service = HeadstartVpnService.running();
        if (service != null && isLive()) {
            service.watch(new Runnable() {
                @Override
                public void run() {
                    runOnUiThread(new Runnable() {
                        @Override
                        public void run() {
                            show();
                        }
                    });
                }
            });
        }
        show();
    }

    @Override
    protected void onPause() {
        HeadstartVpnService service = HeadstartVpnService.running();
        if (service != null && isLive()) {
            service.watch(null);
        }
        super.onPause();
    }

    /** Whether it shows what changes. */
    boolean isLive() {
        return false;
    }

    private void show() {
        rows.removeAllViews();
        fill();
    }

    /** Writes all rows. */
    abstract void fill();

    void add(View view) {
        rows.addView(view);
    }

    /** A row of two lines; the second may be missing. */
    View row(CharSequence first, CharSequence second) {
        View row = getLayoutInflater().inflate(R.layout.row, rows, false);
        ((TextView) row.findViewById(R.id.first)).setText(first);
        TextView below = (TextView) row.findViewById(R.id.second);
        below.setText(second);
        below.setVisibility(second == null ? View.GONE : View.VISIBLE);
        // Read as one by a screen reader.
        row.setContentDescription(second == null ? first : first + ". " + second);
        add(row);
        return row;
    }

    /** A row that is the title of those below it. */
    void heading(int text) {
        row(getString(text), null).setAccessibilityHeading(true);
    }

    void button(int text, View.OnClickListener pressed) {
        Button button = new Button(this);
        button.setText(text);
        button.setOnClickListener(pressed);
        add(button);
    }

    String milliseconds(double value) {
        return Double.isNaN(value) ? getString(R.string.unknown) : getString(R.string.milliseconds, value);
    }

    @Override
    public boolean onCreateOptionsMenu(Menu menu) {
        getMenuInflater().inflate(R.menu.screens, menu);
        return true;
    }

    @Override
    public boolean onOptionsItemSelected(MenuItem item) {
        Class<?> screen;
        if (item.getItemId() == R.id.test) {
            screen = TestActivity.class;
        } else if (item.getItemId() == R.id.settings) {
            screen = SettingsActivity.class;
        } else if (item.getItemId() == R.id.export) {
            screen = ExportActivity.class;
        } else if (item.getItemId() == R.id.about) {
            screen = AboutActivity.class;
        } else {
            return super.onOptionsItemSelected(item);
        }
        startActivity(new Intent(this, screen));
        return true;
    }
}
