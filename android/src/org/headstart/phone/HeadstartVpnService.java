package org.headstart.phone;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.content.Context;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.net.ConnectivityManager;
import android.net.Network;
import android.net.VpnService;
import android.os.Handler;
import android.os.Looper;
import android.os.ParcelFileDescriptor;
import android.os.SystemClock;
import android.system.OsConstants;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.json.JSONObject;

/** The VPN service: a session as long as it runs, told by the system what that is to know. */
public class HeadstartVpnService extends VpnService
        implements Session.Ground, Networks.Listener, DeviceState.Listener {
    static final String STOP = "org.headstart.phone.STOP";
    private static final String CHANNEL = "connection";
    private static final int NOTIFICATION = 1;

    /** The one that runs; screens look at it. */
    private static volatile HeadstartVpnService running;
    /** The screen that is shown, whether or not a service runs. */
    private static volatile Screen watcher;

    private volatile Session session;
    private Owners owners;
    private Networks networks;
    private DeviceState device;

    static HeadstartVpnService running() {
        return running;
    }

    Session session() {
        return session;
    }

    /** Tells this screen when something has changed, on whichever thread that was noticed; null: none any more. */
    static void watch(Screen screen) {
        watcher = screen;
        HeadstartVpnService service = running;
        Session now = service == null ? null : service.session;
        if (now != null) {
            now.look(isLookedAt());
        }
    }

    /** Settings have changed. */
    static void renew() {
        HeadstartVpnService service = running;
        Session now = service == null ? null : service.session;
        if (now != null) {
            now.renew();
        }
    }

    /** Whether statistics are. */
    private static boolean isLookedAt() {
        Screen screen = watcher;
        return screen != null && screen.isLive();
    }

    private static void tell() {
        Screen screen = watcher;
        if (screen != null) {
            screen.changed();
        }
    }

    @Override
    public int onStartCommand(Intent intent, int flags, int id) {
        if (intent != null && STOP.equals(intent.getAction())) {
            new Settings(this).isOn(false);
            end();
            stopSelf();
            return START_NOT_STICKY;
        }
        // The system starts it by itself where the VPN is always on, and after it was killed.
        if (begin()) {
            tell();
        }
        return START_STICKY;
    }

    /** Whether it was not running. */
    private synchronized boolean begin() {
        if (session != null) {
            return false;
        }
        startForeground(NOTIFICATION, notification());
        owners = new Owners(this);
        session = new Session(this, new Settings(this), "org.headstart.phone " + AboutActivity.version(this));
        new Settings(this).isOn(true);
        running = this;
        session.look(isLookedAt());
        device = new DeviceState(this, this);
        device.begin();
        networks = new Networks((ConnectivityManager) getSystemService(Context.CONNECTIVITY_SERVICE), this);
        networks.begin();
        return true;
    }

    /** Ends it, on whichever thread: Android revokes on one of its own. */
    private void end() {
        Session ended;
        synchronized (this) {
            ended = session;
            if (ended == null) {
                return;
            }
            networks.end();
            device.end();
            session = null;
            running = null;
            stopForeground(true);
        }
        ended.stop();
        tell();
    }

    private Notification notification() {
        NotificationManager manager = (NotificationManager) getSystemService(Context.NOTIFICATION_SERVICE);
        manager.createNotificationChannel(new NotificationChannel(
                CHANNEL, getString(R.string.notification_channel), NotificationManager.IMPORTANCE_LOW));
        PendingIntent open = PendingIntent.getActivity(this, 0, new Intent(this, NowActivity.class), 0);
        return new Notification.Builder(this, CHANNEL)
                .setSmallIcon(R.drawable.icon)
                .setContentTitle(getString(R.string.app))
                .setContentText(getString(R.string.notification_text))
                .setContentIntent(open)
                .build();
    }

    @Override
    public void onRevoke() {
        // Another VPN has taken its place, or its owner has.
        new Settings(this).isOn(false);
        end();
        stopSelf();
    }

    @Override
    public void onDestroy() {
        end();
        super.onDestroy();
    }

    @Override
    public void network(NetworkState state) {
        Session now = session;
        if (now != null) {
            now.network(state);
        }
    }

    @Override
    public void device(JSONObject state) {
        Session now = session;
        if (now != null) {
            now.device(state);
        }
    }

    @Override
    public TunBuilder builder() {
        return new VpnTunBuilder(new Builder());
    }

    @Override
    public Launcher launcher() {
        return new NativeLauncher(getApplicationInfo().nativeLibraryDir);
    }

    @Override
    public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
        return owners.uid(tcp, local, peer);
    }

    @Override
    public String name(int uid) {
        return owners.name(uid);
    }

    @Override
    public void below(Network network) {
        setUnderlyingNetworks(network == null ? null : new Network[] {network});
    }

    @Override
    public void close(int descriptor) {
        try {
            ParcelFileDescriptor.adoptFd(descriptor).close();
        } catch (IOException e) {
            // It is closed.
        }
    }

    @Override
    public boolean isLockdown() {
        return isLockdownEnabled();
    }

    @Override
    public long now() {
        return SystemClock.elapsedRealtime();
    }

    @Override
    public void later(long milliseconds, Runnable work) {
        new Handler(Looper.getMainLooper()).postDelayed(work, milliseconds);
    }

    @Override
    public void changed(Session changed) {
        tell();
    }

    /** The system's own builder. */
    private final class VpnTunBuilder implements TunBuilder {
        private final Builder builder;

        VpnTunBuilder(Builder builder) {
            this.builder = builder;
        }

        @Override
        public void session(String name) {
            builder.setSession(name);
        }

        @Override
        public void mtu(int bytes) {
            builder.setMtu(bytes);
        }

        @Override
        public void address(InetAddress address, int prefix) {
            builder.addAddress(address, prefix);
        }

        @Override
        public void route(InetAddress destination, int prefix) {
            builder.addRoute(destination, prefix);
        }

        @Override
        public void dns(InetAddress server) {
            builder.addDnsServer(server);
        }

        @Override
        public void allowFamily(boolean v6) {
            builder.allowFamily(v6 ? OsConstants.AF_INET6 : OsConstants.AF_INET);
        }

        @Override
        public void only(String app) {
            try {
                builder.addAllowedApplication(app);
            } catch (PackageManager.NameNotFoundException e) {
                // It was uninstalled.
            }
        }

        @Override
        public void but(String app) {
            try {
                builder.addDisallowedApplication(app);
            } catch (PackageManager.NameNotFoundException e) {
                // It was uninstalled.
            }
        }

        @Override
        public void below(Network network, boolean metered) {
            builder.setMetered(metered);
            builder.setUnderlyingNetworks(network == null ? null : new Network[] {network});
        }

        @Override
        public int establish() {
            ParcelFileDescriptor made = builder.establish();
            return made == null ? -1 : made.detachFd();
        }
    }
}
