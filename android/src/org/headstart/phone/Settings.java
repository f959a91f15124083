package org.headstart.phone;

import android.content.Context;
import android.content.SharedPreferences;
import java.util.Set;
import java.util.TreeSet;
import org.json.JSONException;
import org.json.JSONObject;

/** What the owner of the phone has chosen. */
class Settings {
    /** Which apps: all, only the chosen ones, or all but these. */
    static final int ALL = 0;
    static final int ONLY = 1;
    static final int BUT = 2;

    /** Which families the interface has: those of the network, or one of them. */
    static final int BOTH = 0;
    static final int IPV4 = 1;
    static final int IPV6 = 2;

    /** How long paper 1 keeps addresses, in section III-C. */
    private static final String AN_HOUR = "3600s";

    private final SharedPreferences kept;

    Settings(Context context) {
        this(context.getSharedPreferences("settings", Context.MODE_PRIVATE));
    }

    Settings(SharedPreferences kept) {
        this.kept = kept;
    }

    boolean accelerate() {
        return kept.getBoolean("accelerate", true);
    }

    void accelerate(boolean on) {
        kept.edit().putBoolean("accelerate", on).apply();
    }

    /** Whether lookups are answered from earlier answers, and connections opened before apps want them. */
    boolean ahead() {
        return kept.getBoolean("ahead", false);
    }

    void ahead(boolean on) {
        kept.edit().putBoolean("ahead", on).apply();
    }

    String race() {
        return kept.getString("race", "adaptive");
    }

    void race(String name) {
        kept.edit().putString("race", name).apply();
    }

    /** Whether addresses are kept for an hour, whatever their lifetime says. */
    boolean keepsForAnHour() {
        return kept.getBoolean("hour", false);
    }

    void keepsForAnHour(boolean on) {
        kept.edit().putBoolean("hour", on).apply();
    }

    boolean atBoot() {
        return kept.getBoolean("boot", false);
    }

    void atBoot(boolean on) {
        kept.edit().putBoolean("boot", on).apply();
    }

    int families() {
        return kept.getInt("families", BOTH);
    }

    void families(int which) {
        kept.edit().putInt("families", which).apply();
    }

    /** Whether its owner has it on, so that it is to go on after an update of the app. */
    boolean isOn() {
        return kept.getBoolean("on", false);
    }

    void isOn(boolean on) {
        kept.edit().putBoolean("on", on).apply();
    }

    int apps() {
        return kept.getInt("apps", ALL);
    }

    void apps(int which) {
        kept.edit().putInt("apps", which).apply();
    }

    /** The names of the chosen packages. */
    Set<String> chosen() {
        return new TreeSet<String>(kept.getStringSet("chosen", new TreeSet<String>()));
    }

    void choose(String name, boolean on) {
        Set<String> all = chosen();
        if (on) {
            all.add(name);
        } else {
            all.remove(name);
        }
        kept.edit().putStringSet("chosen", all).apply();
    }

    /** All that a session begins with; as soon as this is another text it is to begin anew. */
    String text() {
        try {
            return json() + " " + families() + " " + apps() + (apps() == ALL ? "" : " " + chosen());
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    /** As the engine is told. */
    JSONObject json() throws JSONException {
        return Messages.settings(accelerate(), ahead(), race(), keepsForAnHour() ? AN_HOUR : "ttl");
    }
}
