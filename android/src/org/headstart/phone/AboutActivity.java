package org.headstart.phone;

import android.content.Context;
import android.content.pm.PackageManager;

/** What this is, and what it has never run on. */
public class AboutActivity extends Screen {
    @Override
    void fill() {
        row(getString(R.string.about_text, version(this)), null);
    }

    static String version(Context context) {
        try {
            return context.getPackageManager().getPackageInfo(context.getPackageName(), 0).versionName;
        } catch (PackageManager.NameNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }
}
