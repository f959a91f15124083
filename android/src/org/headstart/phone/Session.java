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

        /** The session has changed: it runs, waits or has failed. */
        void changed(Session session);
    }

    /** How a session stands. */
    enum State { OFF, WAITING, RUNNING, REFUSED, FAILED }

    /** The interface carries what every network carries. */
    static final int MTU = 1500;
    static final String V4 = "10.77.0.1";
    /** Of no network (RFC 3849), and not of the unique local ones, for which RFC 6724 has apps prefer IPv4. */
    static final String V6 = "2001:db8:6865:6164::1";
    /** Engines that end one after the other without having started, until it is said that they do not start. */
    private static final int MOST_FAILURES = 5;

    private final Ground ground;
    private final Settings settings;
    private final String app;
    private NetworkState network = NetworkState.NONE;
    private JSONObject device = new JSONObject();
    private JSONObject statistics;
    private Engine engine;
    private int tun = -1;
    /** The network that the interface was made for. */
    private NetworkState made = NetworkState.NONE;
    private int failures;
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

    /** Why it failed. */
    synchronized String why() {
        return why;
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
        synchronized (this) {
            network = next;
            if (stopping) {
                return;
            }
            if (!next.exists()) {
                // What is open may live on; the interface stays, so that nothing leaks around it.
                set(state == State.RUNNING ? State.RUNNING : State.WAITING, "");
                return;
            }
            if (tun < 0 || !next.hasTheInterfaceOf(made)) {
                establish();
            } else if (!Objects.equals(next.network, made.network)) {
                ground.below(next.network);
                made = next;
            }
            // Later than the interface: errors to apps go over that.
            tell(next);
        }
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

    /** Ends the session. */
    void stop() {
        synchronized (this) {
            stopping = true;
            try {
                if (engine != null) {
                    engine.say(Messages.stop());
                }
            } catch (JSONException e) {
                throw new IllegalStateException(e);
            }
            if (engine == null) {
                closeTun();
            }
        }
        set(State.OFF, "");
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
        if (engine == null && !launching) {
            launch();
        }
    }

    /** The interface has the families that the network has; the other goes as it went before. */
    private int build(TunBuilder builder) throws UnknownHostException {
        builder.session("headstart");
        builder.mtu(MTU);
        if (network.v4) {
            builder.address(InetAddress.getByName(V4), 32);
            builder.route(InetAddress.getByName("0.0.0.0"), 0);
        } else {
            builder.allowFamily(false);
        }
        if (network.v6) {
            builder.address(InetAddress.getByName(V6), 128);
            builder.route(InetAddress.getByName("::"), 0);
        } else {
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
                } catch (IOException e) {
                    synchronized (Session.this) {
                        if (number == launches && !stopping) {
                            relaunch(String.valueOf(e.getMessage()));
                        }
                    }
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

    /** After an engine that has ended, or did not start. */
    private void relaunch(String reason) {
        if (++failures < MOST_FAILURES) {
            launch();
        } else {
            set(State.FAILED, reason);
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
                if (kind.equals("hello")) {
                    JSONObject how = settings.json();
                    started = engine.say(Messages.start(how, network.json(), device), tun);
                } else if (kind.equals("started")) {
                    failures = 0;
                    if (looked) {
                        say(Messages.subscribe(true));
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
    public void gone(Engine from) {
        Answer unanswered;
        synchronized (this) {
            if (from != engine) {
                return;
            }
            unanswered = forget();
            if (stopping) {
                closeTun();
            } else {
                relaunch(why);
            }
        }
        answer(unanswered, null);
        ground.changed(this);
    }
}
