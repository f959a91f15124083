package org.headstart.phone;

import android.net.Network;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Objects;
import org.json.JSONException;
import org.json.JSONObject;

/**
 * One VPN session: the interface, and an engine behind it. An engine that ends is followed by another one with the same interface, in whose
 * queue packets wait; where the interface is made anew, for a network that differs in what an interface says, the engine goes on with that.
 */
final class Session implements Engine.Front {
    /** What a session stands on. */
    interface Ground {
        TunBuilder builder();

        Launcher launcher();

        int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer);

        String name(int uid);

        boolean protect(int descriptor);

        /** The interface is over this network now; null where no one network is known. */
        void below(Network network);

        /** Closes a descriptor. */
        void close(int descriptor);

        /** Whether the system lets nothing out but through this VPN. */
        boolean isLockdown();

        /** Milliseconds of a clock that only goes forward. */
        long now();

        /** Does something after so many milliseconds. */
        void later(long milliseconds, Runnable work);

        /** The session has changed: it runs, waits or has failed. */
        void changed(Session session);
    }

    /** How a session stands. */
    enum State { OFF, WAITING, RUNNING, REFUSED, CAPTIVE, RESTARTING, FAILED }

    /** The interface carries what every network carries. */
    static final int MTU = 1500;
    static final String V4 = "10.77.0.1";
    /** Of no network (RFC 3849), and not of the unique local ones, for which RFC 6724 has apps prefer IPv4. */
    static final String V6 = "2001:db8:6865:6164::1";
    /** Milliseconds before another engine is started, after the first one that ended soon, the second and so on; after these none is. */
    private static final long[] PAUSES = {0, 1_000, 5_000, 30_000};
    /** In a longer pause the phone goes on without headstart. */
    private static final long PAUSE_OFFLINE = 1_000;
    /** An engine that has run for so many milliseconds has not ended soon. */
    private static final long LIVES = 30_000;
    /** Milliseconds that an engine has to end. */
    private static final long LAST_WORDS = 2_000;
    /** An engine hangs if it says nothing for so many milliseconds, while it is to send statistics each second. */
    private static final long SILENCE = 10_000;

    private final Ground ground;
    private final Settings settings;
    private final String app;
    /** The network, and what of it is wanted. */
    private NetworkState whole = NetworkState.NONE;
    private NetworkState network = NetworkState.NONE;
    private JSONObject device = new JSONObject();
    private JSONObject statistics;
    private Engine engine;
    private int tun = -1;
    /** The network that the interface was made for. */
    private NetworkState made = NetworkState.NONE;
    private int failures;
    /** Another engine is started in a while. */
    private boolean pauses;
    /** When the engine started; negative: it has not. */
    private long begun = -1;
    /** Messages that engines have sent. */
    private long heard;
    /** Counts times that statistics began to be looked at, or no longer are. */
    private int watches;
    private End end = End.UNKNOWN;
    /** Counts engines that are started; only the latest one is wanted. */
    private int launches;
    private boolean launching;
    /** The engine has the interface. */
    private boolean started;
    private boolean captures;
    private boolean looked;
    private boolean stopping;
    private State state = State.OFF;
    private String why = "";
    private Answer pending;

    /** Waits for the engine to have written a file. */
    interface Answer {
        /** The message, or null where the engine is gone. */
        void said(JSONObject message);
    }

    Session(Ground ground, Settings settings, String app) {
        this.ground = ground;
        this.settings = settings;
        this.app = app;
    }

    synchronized State state() {
        return state;
    }

    /** Why it failed, as the engine or the system says. */
    synchronized String why() {
        return why;
    }

    /** How the engine before ended. */
    synchronized End end() {
        return end;
    }

    synchronized JSONObject statistics() {
        return statistics;
    }

    synchronized NetworkState network() {
        return network;
    }

    /** Whether the engine writes packets to a file. */
    synchronized boolean captures() {
        return captures;
    }

    /** The device is on this network. */
    void network(NetworkState next) {
        Answer unanswered = null;
        synchronized (this) {
            whole = next;
            network = next.of(settings.families());
            if (stopping) {
                return;
            }
            if (!network.exists()) {
                // What is open may live on; the interface stays, so that nothing leaks around it.
                set(state == State.RUNNING && started ? State.RUNNING : State.WAITING, "");
            } else if (network.wantsALogin() && !ground.isLockdown()) {
                // The page for that is not always reached through a VPN, and the system does not look for it there.
                unanswered = retire();
                closeTun();
                set(State.CAPTIVE, "");
            } else if (!pauses) {
                goOn();
            }
        }
        answer(unanswered, null);
    }

    /** On a network that there is. */
    private void goOn() {
        if (state == State.FAILED) {
            set(State.RESTARTING, why);
        }
        if (tun < 0 || !network.hasTheInterfaceOf(made)) {
            establish();
        } else if (!Objects.equals(network.network, made.network)) {
            ground.below(network.network);
            made = network;
        }
        if (tun >= 0 && engine == null && !launching) {
            launch();
        }
        // Later than the interface: errors to apps go over that.
        tell(network);
    }

    /** Settings have changed: an interface and an engine with these. */
    void renew() {
        Answer unanswered;
        synchronized (this) {
            if (tun < 0) {
                return;
            }
            unanswered = retire();
            made = NetworkState.NONE;
            network(whole);
        }
        answer(unanswered, null);
    }

    private void tell(NetworkState next) {
        try {
            say(Messages.network(next.json()));
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The state of the device. */
    synchronized void device(JSONObject next) {
        device = next;
        try {
            say(Messages.device(next));
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether statistics are looked at. */
    synchronized void look(boolean on) {
        looked = on;
        try {
            say(Messages.subscribe(on));
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
        watch();
    }

    /** While statistics are to come, an engine that sends none hangs, and is killed. At other times its silence means nothing. */
    private void watch() {
        final int number = ++watches;
        if (!looked || !started) {
            return;
        }
        final Engine watched = engine;
        final long before = heard;
        ground.later(SILENCE, new Runnable() {
            @Override
            public void run() {
                synchronized (Session.this) {
                    if (number != watches || watched != engine) {
                        return;
                    }
                    if (heard != before) {
                        watch();
                        return;
                    }
                }
                watched.close();
            }
        });
    }

    /** Has the engine write to a file, whose descriptor goes along unless it is negative. One at a time. */
    synchronized boolean export(JSONObject message, int descriptor, Answer answer) {
        if (engine == null || pending != null) {
            return false;
        }
        pending = answer;
        if (engine.say(message, descriptor)) {
            return true;
        }
        pending = null;
        return false;
    }

    /** Has the engine write packets to this file from now on; whether there is one. */
    synchronized boolean capture(int descriptor) {
        try {
            captures = engine != null && engine.say(Messages.exportPackets(true), descriptor);
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
        return captures;
    }

    /** Has it write no more of them. */
    synchronized boolean endCapture(Answer answer) {
        try {
            boolean said = captures && export(Messages.exportPackets(false), -1, answer);
            captures &= !said;
            return said;
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Ends the session: the interface at once, an engine that hangs a little later. */
    void stop() {
        Answer unanswered;
        synchronized (this) {
            stopping = true;
            unanswered = retire();
            closeTun();
        }
        answer(unanswered, null);
        set(State.OFF, "");
    }

    /** The engine is to end, and one that starts is not wanted; whom it has not answered. */
    private Answer retire() {
        final Engine last = engine;
        if (last != null) {
            try {
                last.say(Messages.stop());
            } catch (JSONException e) {
                throw new IllegalStateException(e);
            }
            ground.later(LAST_WORDS, new Runnable() {
                @Override
                public void run() {
                    last.close();
                }
            });
        }
        launches++;
        launching = false;
        pauses = false;
        return forget();
    }

    /** Says something to the engine, if one has started; one that starts is told all of it then. */
    private void say(JSONObject message) {
        if (started) {
            engine.say(message);
        }
    }

    /** The engine is no more; what it has not answered, no other one will. */
    private Answer forget() {
        Answer unanswered = pending;
        engine = null;
        started = false;
        begun = -1;
        pending = null;
        captures = false;
        return unanswered;
    }

    /** Answers, which is never done under the lock. */
    private static void answer(Answer waiting, JSONObject message) {
        if (waiting != null) {
            waiting.said(message);
        }
    }

    /** Makes the interface, or makes it anew: the engine goes on with the next one. */
    private void establish() {
        int next;
        try {
            next = build(ground.builder());
            if (next < 0) {
                set(State.REFUSED, "");
                return;
            }
            if (started) {
                engine.say(Messages.tun(), next);
            }
        } catch (UnknownHostException | JSONException e) {
            throw new IllegalStateException(e);
        }
        // The one before is closed when there is the next: nothing leaks meanwhile.
        closeTun();
        tun = next;
        made = network;
    }

    /** The interface has the families that are wanted; one that the network has not, as far as is known, goes as it went before. */
    private int build(TunBuilder builder) throws UnknownHostException {
        builder.session("headstart");
        builder.mtu(MTU);
        if (network.v4) {
            builder.address(InetAddress.getByName(V4), 32);
            builder.route(InetAddress.getByName("0.0.0.0"), 0);
        } else if (!whole.v4 && !ground.isLockdown()) {
            builder.allowFamily(false);
        }
        if (network.v6) {
            builder.address(InetAddress.getByName(V6), 128);
            builder.route(InetAddress.getByName("::"), 0);
        } else if (!whole.v6 && !ground.isLockdown()) {
            builder.allowFamily(true);
        }
        for (InetAddress server : network.dns) {
            builder.dns(server);
        }
        for (String name : settings.chosen()) {
            if (settings.apps() == Settings.ONLY) {
                builder.only(name);
            } else if (settings.apps() == Settings.BUT) {
                builder.but(name);
            }
        }
        builder.below(network.network, network.metered);
        return builder.establish();
    }

    /** Starts an engine on a thread of its own: it may take its time, for which nobody waits who wants to know how the session stands. */
    private void launch() {
        final int number = ++launches;
        launching = true;
        Thread thread = new Thread("launch") {
            @Override
            public void run() {
                try {
                    launched(number, ground.launcher().launch());
                } catch (NativeLauncher.NotConnected e) {
                    missed(number, "", e.end);
                } catch (IOException e) {
                    missed(number, String.valueOf(e.getMessage()), End.UNKNOWN);
                }
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    private void launched(int number, Channel channel) {
        Engine made = new Engine(channel, this, app);
        synchronized (this) {
            if (number == launches && !stopping) {
                launching = false;
                engine = made;
                made.begin();
                return;
            }
        }
        // The session has ended meanwhile.
        made.close();
    }

    private synchronized void missed(int number, String reason, End how) {
        if (number == launches) {
            launching = false;
            end = how;
            relaunch(reason);
        }
    }

    /** After an engine that has ended, or did not start. */
    private void relaunch(String reason) {
        if (failures >= PAUSES.length) {
            stepAside();
            // The next network is another try.
            failures = 0;
            set(State.FAILED, reason);
            return;
        }
        long pause = PAUSES[failures++];
        if (pause == 0) {
            launch();
        } else {
            if (pause > PAUSE_OFFLINE) {
                stepAside();
            }
            launchIn(pause);
        }
        set(State.RESTARTING, reason);
    }

    private void launchIn(long pause) {
        final int number = ++launches;
        pauses = true;
        ground.later(pause, new Runnable() {
            @Override
            public void run() {
                synchronized (Session.this) {
                    if (number == launches) {
                        pauses = false;
                        network(whole);
                    }
                }
            }
        });
    }

    /** Without an engine the phone is online without the interface only; where nothing may pass it by, it stays. */
    private void stepAside() {
        if (!ground.isLockdown()) {
            closeTun();
        }
    }

    private void closeTun() {
        if (tun >= 0) {
            ground.close(tun);
            tun = -1;
        }
    }

    private void set(State next, String reason) {
        synchronized (this) {
            state = next;
            why = reason;
        }
        ground.changed(this);
    }

    @Override
    public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
        return ground.owner(tcp, local, peer);
    }

    @Override
    public String name(int uid) {
        return ground.name(uid);
    }

    @Override
    public boolean protect(int descriptor) {
        return ground.protect(descriptor);
    }

    @Override
    public void told(Engine from, JSONObject message) {
        String kind = message.optString("kind");
        try {
            Answer waiting = null;
            synchronized (this) {
                if (from != engine) {
                    return;
                }
                heard++;
                if (kind.equals("hello")) {
                    JSONObject how = settings.json();
                    started = engine.say(Messages.start(how, network.json(), device), tun);
                } else if (kind.equals("started")) {
                    begun = ground.now();
                    if (looked) {
                        look(true);
                    }
                } else if (kind.equals("statistics")) {
                    statistics = message;
                } else if (kind.equals("exported") || (kind.equals("error") && message.optString("of").equals("export"))) {
                    waiting = pending;
                    pending = null;
                    // Where nothing waits it is packets that cannot be written.
                    captures &= waiting != null;
                } else if (kind.equals("error")) {
                    why = message.optString("what");
                }
            }
            answer(waiting, message);
            if (kind.equals("started")) {
                set(State.RUNNING, "");
            } else if (waiting == null) {
                ground.changed(this);
            }
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void gone(Engine from, End how) {
        Answer unanswered;
        synchronized (this) {
            if (from != engine) {
                return;
            }
            end = how;
            if (begun >= 0 && ground.now() - begun >= LIVES) {
                failures = 0;
            }
            unanswered = forget();
            relaunch(why);
        }
        answer(unanswered, null);
    }
}
