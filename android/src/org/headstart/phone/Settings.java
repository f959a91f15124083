package org.headstart.phone;

import android.content.Context;
import android.content.SharedPreferences;
import java.util.Set;
import java.util.TreeSet;
import org.json.JSONException;
import org.json.JSONObject;

/** What the owner of the phone has chosen. */
final class Settings {
    /** Which apps: all, only the chosen ones, or all but these. */
    static final int ALL = 0;
    static final int ONLY = 1;
    static final int BUT = 2;

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

    /** As the engine is told. */
    JSONObject json() throws JSONException {
        return Messages.settings(accelerate(), race(), keepsForAnHour() ? AN_HOUR : "ttl");
    }
}
