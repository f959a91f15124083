package org.headstart.phone;

import android.content.SharedPreferences;
import android.net.Network;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What a session stands on, as tests write it: interfaces are numbers, engines are channels of the test. */
class FakeGround implements Session.Ground, Launcher {
    final BlockingQueue<FakeChannel> engines = new LinkedBlockingQueue<FakeChannel>();
    final BlockingQueue<Session.State> states = new LinkedBlockingQueue<Session.State>();
    final List<String> built = Collections.synchronizedList(new ArrayList<String>());
    final List<Integer> closed = Collections.synchronizedList(new ArrayList<Integer>());
    volatile int next = 100;
    /** Engines that do not start, before one that does. */
    final AtomicInteger misses = new AtomicInteger();
    /** Engines take until this is open to start. */
    volatile CountDownLatch start = new CountDownLatch(0);

    /** Settings as they are before anything was chosen. */
    static SharedPreferences untouched() {
        return (SharedPreferences) Proxy.newProxyInstance(
                FakeGround.class.getClassLoader(), new Class<?>[] {SharedPreferences.class}, new InvocationHandler() {
                    @Override
                    public Object invoke(Object proxy, Method method, Object[] words) {
                        return words[1];
                    }
                });
    }

    /** Each has a DNS server of its own, as networks do. */
    static NetworkState network(String transport, boolean v4, boolean v6) throws Exception {
        return network(transport, v4, v6, transport.equals("wifi") ? "192.0.2.53" : "198.51.100.53");
    }

    static NetworkState network(String transport, boolean v4, boolean v6, String dns) throws Exception {
        NetworkState state = new NetworkState();
        state.transport = transport;
        state.v4 = v4;
        state.v6 = v6;
        state.dns = Collections.singletonList(InetAddress.getByName(dns));
        return state;
    }

    void until(Session.State wanted) throws Exception {
        for (Session.State state = null; state != wanted; ) {
            state = states.poll(FakeChannel.WAIT, TimeUnit.SECONDS);
            if (state == null) {
                throw new IllegalStateException(wanted + " never came");
            }
        }
    }

    FakeChannel engine() throws Exception {
        FakeChannel engine = engines.poll(FakeChannel.WAIT, TimeUnit.SECONDS);
        if (engine == null) {
            throw new IllegalStateException("no engine was launched");
        }
        return engine;
    }

    @Override
    public Channel launch() throws IOException {
        if (misses.getAndDecrement() > 0) {
            throw new IOException("no program");
        }
        try {
            start.await();
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        FakeChannel channel = new FakeChannel();
        engines.add(channel);
        return channel;
    }

    @Override
    public Launcher launcher() {
        return this;
    }

    @Override
    public int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
        return -1;
    }

    @Override
    public String name(int uid) {
        return "uid " + uid;
    }

    @Override
    public boolean protect(int descriptor) {
        return true;
    }

    /** What is to be done later, by when. */
    private final java.util.TreeMap<Long, List<Runnable>> later = new java.util.TreeMap<Long, List<Runnable>>();
    private long now;
    volatile boolean lockdown;

    /** So many milliseconds go by. */
    void pass(long milliseconds) {
        long until = now() + milliseconds;
        while (true) {
            List<Runnable> due;
            synchronized (later) {
                if (later.isEmpty() || later.firstKey() > until) {
                    now = until;
                    return;
                }
                now = later.firstKey();
                due = later.remove(now);
            }
            for (Runnable one : due) {
                one.run();
            }
        }
    }

    /** Waits until something is to be done later. */
    void untilLater() throws Exception {
        for (int n = 0; n < FakeChannel.WAIT * 1000; n++) {
            synchronized (later) {
                if (!later.isEmpty()) {
                    return;
                }
            }
            Thread.sleep(1);
        }
        throw new IllegalStateException("nothing is to be done later");
    }

    @Override
    public boolean isLockdown() {
        return lockdown;
    }

    @Override
    public long now() {
        synchronized (later) {
            return now;
        }
    }

    @Override
    public void later(long milliseconds, Runnable work) {
        synchronized (later) {
            List<Runnable> same = later.get(now + milliseconds);
            if (same == null) {
                same = new ArrayList<Runnable>();
                later.put(now + milliseconds, same);
            }
            same.add(work);
        }
    }

    @Override
    public void below(Network network) {
        built.add("below " + network);
    }

    @Override
    public void close(int descriptor) {
        closed.add(descriptor);
    }

    @Override
    public void changed(Session session) {
        states.add(session.state());
    }

    @Override
    public TunBuilder builder() {
        built.add("builder");
        return new TunBuilder() {
            @Override
            public void session(String name) {}

            @Override
            public void mtu(int bytes) {
                built.add("mtu " + bytes);
            }

            @Override
            public void address(InetAddress address, int prefix) {
                built.add("address " + address.getHostAddress() + "/" + prefix);
            }

            @Override
            public void route(InetAddress destination, int prefix) {
                built.add("route " + destination.getHostAddress() + "/" + prefix);
            }

            @Override
            public void dns(InetAddress server) {
                built.add("dns " + server.getHostAddress());
            }

            @Override
            public void allowFamily(boolean v6) {
                built.add("allow " + (v6 ? "IPv6" : "IPv4"));
            }

            @Override
            public void only(String app) {
                built.add("only " + app);
            }

            @Override
            public void but(String app) {
                built.add("but " + app);
            }

            @Override
            public void below(Network network, boolean metered) {
                built.add("metered " + metered);
            }

            @Override
            public int establish() {
                return next < 0 ? -1 : next++;
            }
        };
    }
}
