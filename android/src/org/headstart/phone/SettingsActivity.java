package org.headstart.phone;

import android.content.Intent;
import android.content.pm.PackageManager;
import android.content.pm.ResolveInfo;
import android.view.View;
import android.widget.AdapterView;
import android.widget.ArrayAdapter;
import android.widget.CheckBox;
import android.widget.CompoundButton;
import android.widget.RadioButton;
import android.widget.RadioGroup;
import android.widget.Spinner;
import android.widget.Switch;
import java.util.Set;
import java.util.TreeMap;

/** What the owner of the phone can choose. */
public class SettingsActivity extends Screen {
    private static final int[] FAMILIES = {R.string.families_both, R.string.families_v4, R.string.families_v6};
    private static final int[] WHICH = {R.string.apps_all, R.string.apps_only, R.string.apps_but};

    private Settings settings;
    /** As they were when the screen was opened. */
    private String before;

    @Override
    protected void onResume() {
        super.onResume();
        before = settings.text();
    }

    @Override
    protected void onPause() {
        // Not at each choice: each ends connections.
        if (!settings.text().equals(before)) {
            HeadstartVpnService.renew();
        }
        super.onPause();
    }

    @Override
    void fill() {
        settings = new Settings(this);
        row(getString(R.string.set_applied), null);
        toggle(R.string.set_accelerate, settings.accelerate(), new CompoundButton.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(CompoundButton button, boolean on) {
                settings.accelerate(on);
            }
        });
        toggle(R.string.set_ahead, settings.ahead(), new CompoundButton.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(CompoundButton button, boolean on) {
                settings.ahead(on);
            }
        });
        races();
        toggle(R.string.set_cache, settings.keepsForAnHour(), new CompoundButton.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(CompoundButton button, boolean on) {
                settings.keepsForAnHour(on);
            }
        });
        toggle(R.string.set_boot, settings.atBoot(), new CompoundButton.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(CompoundButton button, boolean on) {
                settings.atBoot(on);
            }
        });
        heading(R.string.set_families);
        choices(FAMILIES, settings.families(), new RadioGroup.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(RadioGroup unused, int id) {
                settings.families(id - 1);
            }
        });
        heading(R.string.set_apps);
        choices(WHICH, settings.apps(), new RadioGroup.OnCheckedChangeListener() {
            @Override
            public void onCheckedChanged(RadioGroup unused, int id) {
                settings.apps(id - 1);
                show();
            }
        });
        if (settings.apps() != Settings.ALL) {
            apps();
        }
    }

    private void toggle(int text, boolean on, CompoundButton.OnCheckedChangeListener changed) {
        Switch view = new Switch(this);
        view.setText(text);
        view.setChecked(on);
        view.setOnCheckedChangeListener(changed);
        add(view);
    }

    private void races() {
        heading(R.string.set_race);
        final String[] names = getResources().getStringArray(R.array.races);
        Spinner spinner = new Spinner(this);
        spinner.setContentDescription(getString(R.string.set_race));
        spinner.setAdapter(new ArrayAdapter<String>(this, android.R.layout.simple_spinner_dropdown_item, names));
        for (int n = 0; n < names.length; n++) {
            if (names[n].equals(settings.race())) {
                spinner.setSelection(n);
            }
        }
        spinner.setOnItemSelectedListener(new AdapterView.OnItemSelectedListener() {
            @Override
            public void onItemSelected(AdapterView<?> parent, View view, int place, long id) {
                settings.race(names[place]);
            }

            @Override
            public void onNothingSelected(AdapterView<?> parent) {}
        });
        add(spinner);
    }

    /** One of these, whose numbers are one more than their places. */
    private void choices(int[] texts, int chosen, RadioGroup.OnCheckedChangeListener changed) {
        RadioGroup group = new RadioGroup(this);
        for (int n = 0; n < texts.length; n++) {
            RadioButton button = new RadioButton(this);
            button.setId(n + 1);
            button.setText(texts[n]);
            group.addView(enlarged(button));
        }
        group.check(chosen + 1);
        group.setOnCheckedChangeListener(changed);
        add(group);
    }

    /** The apps that can be started, by their labels. */
    private void apps() {
        PackageManager packages = getPackageManager();
        Intent startable = new Intent(Intent.ACTION_MAIN).addCategory(Intent.CATEGORY_LAUNCHER);
        TreeMap<String, String> names = new TreeMap<String, String>(String.CASE_INSENSITIVE_ORDER);
        for (ResolveInfo app : packages.queryIntentActivities(startable, 0)) {
            String name = app.activityInfo.packageName;
            names.put(app.loadLabel(packages) + " (" + name + ")", name);
        }
        Set<String> chosen = settings.chosen();
        for (java.util.Map.Entry<String, String> app : names.entrySet()) {
            final String name = app.getValue();
            CheckBox box = new CheckBox(this);
            box.setText(app.getKey());
            box.setChecked(chosen.contains(name));
            box.setOnCheckedChangeListener(new CompoundButton.OnCheckedChangeListener() {
                @Override
                public void onCheckedChanged(CompoundButton button, boolean on) {
                    settings.choose(name, on);
                }
            });
            add(box);
        }
    }
}
