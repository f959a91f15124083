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
import org.json.JSONObject;
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

    /** What the service of these tests stands on. */
    private static final FakeGround GROUND = new FakeGround();

    /** The service with engines and interfaces of the test. */
    public static class Service extends HeadstartVpnService {
        @Override
        public TunBuilder builder() {
            return GROUND.builder();
        }

        @Override
        public Launcher launcher() {
            return GROUND;
        }

        @Override
        public void close(int descriptor) {}

        @Override
        public void below(android.net.Network network) {}
    }

    private final org.robolectric.android.controller.ServiceController<Service> service =
            Robolectric.buildService(Service.class);
    private FakeChannel engine;

    /** Waits until something has happened on another thread. */
    private interface Until {
        boolean is() throws Exception;
    }

    private static void until(Until wanted) throws Exception {
        for (int n = 0; !wanted.is(); n++) {
            assertTrue("it never happens", n < FakeChannel.WAIT * 100);
            Thread.sleep(10);
            org.robolectric.shadows.ShadowLooper.idleMainLooper();
        }
    }

    /** A session that runs, with the statistics of the schema's example. */
    private void run() throws Exception {
        service.create().startCommand(0, 1);
        final Session session = service.get().session();
        service.get().network(FakeGround.network("wifi", true, true));
        engine = GROUND.engine();
        engine.tell(new JSONObject("{'kind': 'hello', 'version': 1, 'engine': 'fake'}"), -1);
        engine.tell(new JSONObject("{'kind': 'started'}"), -1);
        for (JSONObject example : new Schema().examples("to_app")) {
            if (example.getString("kind").equals("statistics")) {
                engine.tell(example, -1);
            }
        }
        until(new Until() {
            @Override
            public boolean is() {
                return session.state() == Session.State.RUNNING && session.statistics() != null;
            }
        });
        assertTrue(session.capture(7));
    }

    /** What the engine is told next of this kind. */
    private void told(String kind) throws Exception {
        while (!engine.next().getString("kind").equals(kind)) {
            continue;
        }
    }

    /** Draws each screen with a session; these texts are on it, and nothing is cut off. */
    private void everyScreen(String mode) throws Exception {
        run();
        Activity now = show(NowActivity.class);
        has(now, mode, "On, over Wi-Fi", "org.example.mail", "connect 31 ms, round trip 30 ms, 1 of 3 connections raced",
                "connections begun ahead: 1; lookups without a server: 1 of 2",
                "packets of apps: 410", "statistics for this screen: 60");
        told("export");
        final Activity app = show(AppActivity.class);
        told("export");
        String lines = "{'event': 'lookup', 'app': 'org.example.mail', 'name': 'mail.example.org', 'took_ms': 21.4}\n"
                + "{'event': 'lookup', 'app': 'org.example.mail', 'name': 'again.example.org', 'took_ms': 0.1, 'cached': true}\n"
                + "{'event': 'connection', 'app': 'org.example.mail', 'peer': '198.51.100.7:993', 'accelerated': null,"
                + " 'connect_ms': 44, 'up_bytes': 700, 'down_bytes': 5100}\n";
        File file = new File(Export.folder(RuntimeEnvironment.getApplication()), "app.jsonl");
        Files.write(file.toPath(), lines.getBytes(StandardCharsets.UTF_8));
        engine.tell(new JSONObject("{'kind': 'exported', 'what': 'lines', 'lines': 3}"), -1);
        until(new Until() {
            @Override
            public boolean is() {
                return text(app).contains("mail.example.org");
            }
        });
        has(app, mode, "198.51.100.1:443, raced to [2001:db8::1]:443", "connect unknown, 600 bytes up, 9000 down",
                "lookup of mail.example.org: 21 ms", "lookup of again.example.org: no server asked", "198.51.100.7:993", "connect 44 ms, 700 bytes up, 5100 down");
        has(show(ExportActivity.class), mode, "Share measurements", "End the capture");
        has(measured(), mode, "5 of 5 connected", "power saving off");
        has(show(SettingsActivity.class), mode, "IPv4 and IPv6", "All apps");
        has(show(AboutActivity.class), mode, "never run on a device");
        service.destroy();
    }

    private static void has(Activity screen, String mode, String... texts) throws Exception {
        draw(screen, screen.getClass().getSimpleName() + "-" + mode);
        for (String text : texts) {
            assertTrue(text + " is not in " + text(screen), text(screen).contains(text));
        }
        List<View> views = new ArrayList<View>();
        texts(screen.findViewById(R.id.rows), views);
        for (View view : views) {
            if (view instanceof TextView && ((TextView) view).getLayout() != null) {
                TextView text = (TextView) view;
                int room = text.getHeight() - text.getCompoundPaddingTop() - text.getCompoundPaddingBottom();
                String what = text.getText() + " is cut off in " + mode;
                assertTrue(what, text.getLayout().getHeight() <= room || text instanceof android.widget.EditText);
                assertEquals(what, 0, text.getLayout().getEllipsisCount(text.getLayout().getLineCount() - 1));
                assertTrue(what, text.getWidth() <= screen.getWindow().getDecorView().getWidth());
            }
        }
    }

    /** The screen that has measured to a server of the test. */
    private static Activity measured() throws Exception {
        final Activity screen = show(TestActivity.class);
        try (java.net.ServerSocket server = new java.net.ServerSocket(0, 50, java.net.InetAddress.getLoopbackAddress())) {
            List<View> views = new ArrayList<View>();
            texts(screen.findViewById(R.id.rows), views);
            for (View view : views) {
                if (view instanceof android.widget.EditText) {
                    ((TextView) view).setText("127.0.0.1:" + server.getLocalPort());
                }
            }
            for (View view : views) {
                if (view instanceof Button) {
                    view.performClick();
                }
            }
            until(new Until() {
                @Override
                public boolean is() {
                    return text(screen).contains("connected");
                }
            });
        }
        return screen;
    }

    @Test
    public void everyScreenIsShownInTheLight() throws Exception {
        everyScreen("light");
    }

    @Test
    @Config(qualifiers = "+night")
    public void everyScreenIsShownInTheDark() throws Exception {
        everyScreen("dark");
    }

    @Test
    @Config(fontScale = 2.0f)
    public void everyScreenIsShownInLargeLetters() throws Exception {
        everyScreen("large");
    }

    @Test
    public void theStateOfThePhoneBesideAResultIsThatOfTheMeasurement() throws Exception {
        TestActivity screen = (TestActivity) measured();
        android.os.PowerManager power =
                (android.os.PowerManager) screen.getSystemService(android.content.Context.POWER_SERVICE);
        org.robolectric.Shadows.shadowOf(power).setIsPowerSaveMode(true);
        screen.show();
        assertTrue(text(screen), text(screen).contains("power saving off"));
    }

    @Test
    public void settingsThatWereChangedApplyWhenTheScreenIsLeft() throws Exception {
        run();
        org.robolectric.android.controller.ActivityController<SettingsActivity> screen =
                Robolectric.buildActivity(SettingsActivity.class).setup();
        screen.pause();
        assertTrue("nothing was changed", GROUND.engines.isEmpty());
        screen.resume();
        new Settings(RuntimeEnvironment.getApplication()).families(Settings.IPV4);
        screen.pause();
        GROUND.engine();
        service.destroy();
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
        // Start, the host and its button, three switches, a race, six choices and an app.
        assertTrue(views.toString(), views.size() >= 14);
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
