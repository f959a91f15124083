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
    /** Units (dp) that whatever is touched has at least in height and width: Android's own advice. */
    static final int TOUCHED = 48;

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
        HeadstartVpnService.watch(this);
        show();
    }

    @Override
    protected void onPause() {
        HeadstartVpnService.watch(null);
        super.onPause();
    }

    /** Something has changed, on whichever thread. */
    final void changed() {
        if (showsTheSession()) {
            runOnUiThread(new Runnable() {
                @Override
                public void run() {
                    show();
                }
            });
        }
    }

    /** Whether it shows how the session stands. */
    boolean showsTheSession() {
        return isLive();
    }

    /** Whether it shows statistics. */
    boolean isLive() {
        return false;
    }

    final void show() {
        rows.removeAllViews();
        fill();
    }

    /** Writes all rows. */
    abstract void fill();

    void add(View view) {
        rows.addView(enlarged(view));
    }

    /** Large enough for a finger. */
    View enlarged(View view) {
        view.setMinimumHeight(Math.round(TOUCHED * getResources().getDisplayMetrics().density));
        return view;
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
        View row = row(getString(text), null);
        TextView title = (TextView) row.findViewById(R.id.first);
        title.setTextAppearance(android.R.style.TextAppearance_Material_Body2);
        title.setTextColor(getColor(R.color.accent));
        row.setAccessibilityHeading(true);
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
