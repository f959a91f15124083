package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.content.Intent;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.net.Uri;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.TextView;
import java.io.File;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35, qualifiers = "w411dp-h731dp-xhdpi")
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class ScreensTest {
    private static final Class<?>[] ALL = {
        NowActivity.class, AppActivity.class, TestActivity.class, SettingsActivity.class, ExportActivity.class, AboutActivity.class
    };

    @SuppressWarnings("unchecked")
    private static Activity show(Class<?> screen) {
        Intent intent = new Intent(RuntimeEnvironment.getApplication(), screen).putExtra(AppActivity.NAME, "org.example.mail");
        return Robolectric.buildActivity((Class<? extends Activity>) screen, intent).setup().get();
    }

    private static void texts(View view, List<View> into) {
        if (view instanceof ViewGroup) {
            for (int n = 0; n < ((ViewGroup) view).getChildCount(); n++) {
                texts(((ViewGroup) view).getChildAt(n), into);
            }
        } else if (view.isShown()) {
            into.add(view);
        }
    }

    private static String text(Activity screen) {
        List<View> views = new ArrayList<View>();
        texts(screen.findViewById(R.id.rows), views);
        StringBuilder text = new StringBuilder();
        for (View view : views) {
            text.append(view instanceof TextView ? ((TextView) view).getText() : "").append('\n');
        }
        return text.toString();
    }

    /** Draws a screen into target/android/screens, for people to look at; whether anything is on it. */
    private static void draw(Activity screen, String name) throws Exception {
        View all = screen.getWindow().getDecorView();
        Bitmap picture = Bitmap.createBitmap(all.getWidth(), all.getHeight(), Bitmap.Config.ARGB_8888);
        all.draw(new Canvas(picture));
        File folder = new File(System.getProperty("headstart.made"), "screens");
        folder.mkdirs();
        try (FileOutputStream out = new FileOutputStream(new File(folder, name + ".png"))) {
            picture.compress(Bitmap.CompressFormat.PNG, 100, out);
        }
        int first = picture.getPixel(picture.getWidth() / 2, picture.getHeight() - 2);
        boolean differs = false;
        for (int y = 0; y < picture.getHeight(); y += 3) {
            for (int x = 0; x < picture.getWidth(); x += 3) {
                differs |= picture.getPixel(x, y) != first;
            }
        }
        assertTrue(name + " is empty", differs);
    }

    @Test
    public void everyScreenIsShownInTheLight() throws Exception {
        for (Class<?> screen : ALL) {
            draw(show(screen), screen.getSimpleName() + "-light");
        }
    }

    @Test
    @Config(qualifiers = "+night")
    public void everyScreenIsShownInTheDark() throws Exception {
        for (Class<?> screen : ALL) {
            draw(show(screen), screen.getSimpleName() + "-dark");
        }
    }

    @Test
    @Config(fontScale = 2.0f)
    public void everyScreenIsShownInLargeLetters() throws Exception {
        for (Class<?> screen : ALL) {
            draw(show(screen), screen.getSimpleName() + "-large");
        }
    }

    private static void touchable(View view, List<View> into) {
        if (view.isClickable() && view.isShown()) {
            into.add(view);
        }
        for (int n = 0; view instanceof ViewGroup && n < ((ViewGroup) view).getChildCount(); n++) {
            touchable(((ViewGroup) view).getChildAt(n), into);
        }
    }

    @Test
    public void whatCanBeTouchedHasALabelAndIsLargeEnough() {
        android.app.Application context = RuntimeEnvironment.getApplication();
        new Settings(context).apps(Settings.ONLY);
        android.content.ComponentName mail = new android.content.ComponentName("org.example.mail", "org.example.mail.Main");
        android.content.IntentFilter startable = new android.content.IntentFilter(Intent.ACTION_MAIN);
        startable.addCategory(Intent.CATEGORY_LAUNCHER);
        org.robolectric.shadows.ShadowPackageManager packages = org.robolectric.Shadows.shadowOf(context.getPackageManager());
        packages.addActivityIfNotPresent(mail);
        packages.addIntentFilterForActivity(mail, startable);
        List<View> views = new ArrayList<View>();
        for (Class<?> screen : ALL) {
            touchable(show(screen).findViewById(R.id.rows), views);
        }
        float dp = context.getResources().getDisplayMetrics().density;
        for (View view : views) {
            CharSequence label = view instanceof TextView ? ((TextView) view).getText() : "";
            assertTrue(view.toString(), label.length() > 0 || view.getContentDescription() != null);
            String size = view + " is " + view.getWidth() / dp + " x " + view.getHeight() / dp + " dp";
            assertTrue(size, view.getWidth() >= Screen.TOUCHED * dp && view.getHeight() >= Screen.TOUCHED * dp);
        }
        // Start, the host and its button, three switches, a race, three choices and an app.
        assertTrue(views.toString(), views.size() >= 11);
    }

    @Test
    public void aScreenShowsThatTheSessionBeginsAndEndsAndOneThatWasLeftIsToldNothing() {
        android.app.Application context = RuntimeEnvironment.getApplication();
        org.robolectric.android.controller.ActivityController<AppActivity> left = Robolectric.buildActivity(
                AppActivity.class, new Intent(context, AppActivity.class).putExtra(AppActivity.NAME, "org.example.mail"));
        left.setup().pause();
        Activity now = show(NowActivity.class);
        assertTrue(text(now).contains(context.getString(R.string.state_off)));
        org.robolectric.android.controller.ServiceController<HeadstartVpnService> service =
                Robolectric.buildService(HeadstartVpnService.class).create().startCommand(0, 1);
        org.robolectric.shadows.ShadowLooper.idleMainLooper();
        assertTrue(text(now), text(now).contains(context.getString(R.string.state_waiting)));
        // What it asked for comes after it was left.
        left.get().take(new ArrayList<org.json.JSONObject>());
        View before = ((ViewGroup) left.get().findViewById(R.id.rows)).getChildAt(0);
        service.get().changed(service.get().session());
        assertEquals(before, ((ViewGroup) left.get().findViewById(R.id.rows)).getChildAt(0));
        service.destroy();
        org.robolectric.shadows.ShadowLooper.idleMainLooper();
        assertTrue(text(now), text(now).contains(context.getString(R.string.state_off)));
    }

    @Test
    public void theScreenThatIsAboutSaysWhatHasNeverBeenTried() {
        assertTrue(text(show(AboutActivity.class)).contains("never run on a device"));
        assertTrue(text(show(AboutActivity.class)).contains("headstart 0.1.0"));
    }

    @Test
    public void withoutASessionScreensSaySo() {
        String off = RuntimeEnvironment.getApplication().getString(R.string.needs_session);
        assertTrue(text(show(AppActivity.class)).contains(off));
        assertTrue(text(show(ExportActivity.class)).contains(off));
        Activity now = show(NowActivity.class);
        assertTrue(text(now).contains("Off."));
        org.robolectric.shadows.ShadowVpnService.setPrepareResult(null);
        List<View> views = new ArrayList<View>();
        texts(now.findViewById(R.id.rows), views);
        for (View view : views) {
            if (view instanceof Button) {
                view.performClick();
            }
        }
        Intent started = org.robolectric.Shadows.shadowOf(RuntimeEnvironment.getApplication()).getNextStartedService();
        assertEquals(HeadstartVpnService.class.getName(), started.getComponent().getClassName());
    }

    @Test
    public void aTestWantsAHostAndAPort() {
        assertEquals(443, TestActivity.parse("example.org:443").getPort());
        for (String wrong : new String[] {"", "example.org", ":443", "example.org:0", "example.org:70000", "example.org:http"}) {
            assertEquals(wrong, null, TestActivity.parse(wrong));
        }
    }

    @Test
    public void onlyExportsAreLentAndOnlyToBeRead() throws Exception {
        android.app.Application context = RuntimeEnvironment.getApplication();
        ExportProvider provider = Robolectric.setupContentProvider(ExportProvider.class, ExportProvider.AUTHORITY);
        Files.write(new File(Export.folder(context), "a.jsonl").toPath(), "{\"n\": 1}\n{\"n\": 2}\n".getBytes(StandardCharsets.UTF_8));
        Files.write(new File(context.getCacheDir(), "secret").toPath(), new byte[] {1});
        Uri base = Uri.parse("content://" + ExportProvider.AUTHORITY);
        provider.openFile(base.buildUpon().path("a.jsonl").build(), "r").close();
        try (android.database.Cursor told = provider.query(base.buildUpon().path("a.jsonl").build(), null, null, null, null)) {
            assertEquals(1, told.getCount());
        }
        for (String wrong : new String[] {"b.jsonl", "..", "%2e%2e%2fsecret", "x/%2e%2e%2f%2e%2e%2fsecret"}) {
            try {
                provider.openFile(Uri.parse(base + "/" + wrong), "r");
                throw new AssertionError(wrong + " is lent");
            } catch (java.io.FileNotFoundException e) {
                assertNotNull(e.getMessage());
            }
        }
        try {
            provider.openFile(base.buildUpon().path("a.jsonl").build(), "rw");
            throw new AssertionError("it may be written");
        } catch (java.io.FileNotFoundException e) {
            assertNotNull(e.getMessage());
        }
        assertEquals(2, AppActivity.read(new File(Export.folder(context), "a.jsonl")).get(0).getInt("n"));
    }
}
