package org.headstart.phone;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import org.json.JSONException;
import org.json.JSONObject;

/** The connection to one engine. A thread of its own hears it and protects sockets at once; owners are looked up on another. */
final class Engine {
    /** What knows what the engine asks, and is told what it says. */
    interface Front {
        /** The uid that a flow belongs to; negative if that is not known. */
        int owner(boolean tcp, InetSocketAddress local, InetSocketAddress peer);

        /** What the app of a uid is called. */
        String name(int uid);

        /** Keeps packets of a socket out of the interface. */
        boolean protect(int descriptor);

        /** The engine has said something that is no question: started, statistics, exported, error, ended. */
        void told(Engine engine, JSONObject message);

        /** The connection has ended, and so has the engine. The last call. */
        void gone(Engine engine, End end);
    }

    private final Channel channel;
    private final Front front;
    private final String app;
    private final ExecutorService owners = Executors.newSingleThreadExecutor();
    private final Deque<Integer> descriptors = new ArrayDeque<Integer>();

    Engine(Channel channel, Front front, String app) {
        this.channel = channel;
        this.front = front;
        this.app = app;
    }

    /** Begins to hear. */
    void begin() {
        Thread thread = new Thread("engine") {
            @Override
            public void run() {
                hearAll();
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    /** Says something; whether that is possible. What an engine that is gone is told is lost. */
    boolean say(JSONObject message, int descriptor) {
        try {
            synchronized (channel) {
                channel.send(Messages.frame(message), descriptor);
            }
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    boolean say(JSONObject message) {
        return say(message, -1);
    }

    /** Ends the connection, and kills the engine. */
    void close() {
        owners.shutdownNow();
        try {
            channel.close();
        } catch (IOException e) {
            // It is closed.
        }
    }

    private void hearAll() {
        try {
            while (true) {
                int length = ByteBuffer.wrap(read(4)).getInt();
                if (length < 1 || length > Messages.LONGEST) {
                    throw new IOException("a frame of " + length + " bytes");
                }
                hear(new JSONObject(new String(read(length), StandardCharsets.UTF_8)));
            }
        } catch (IOException | JSONException e) {
            // Whatever it is, nothing further can be read.
        }
        End end = channel.ended();
        close();
        while (!descriptors.isEmpty()) {
            channel.release(descriptors.removeFirst());
        }
        front.gone(this, end);
    }

    private byte[] read(int length) throws IOException {
        byte[] bytes = new byte[length];
        int filled = 0;
        while (filled < length) {
            int got = channel.read(bytes, filled, length - filled);
            if (got < 0) {
                throw new EOFException();
            }
            for (int descriptor : channel.descriptors()) {
                descriptors.addLast(descriptor);
            }
            filled += got;
        }
        return bytes;
    }

    private void hear(JSONObject message) throws JSONException {
        int[] mine = new int[Math.min(message.optInt("descriptors"), descriptors.size())];
        for (int n = 0; n < mine.length; n++) {
            mine[n] = descriptors.removeFirst();
        }
        String kind = message.optString("kind");
        if (kind.equals("hello")) {
            say(Messages.hello(app));
            front.told(this, message);
        } else if (kind.equals("protect")) {
            boolean ok = mine.length == 1 && front.protect(mine[0]);
            say(Messages.isProtected(message.getLong("question"), ok));
        } else if (kind.equals("owner")) {
            ask(message);
        } else {
            front.told(this, message);
        }
        for (int descriptor : mine) {
            channel.release(descriptor);
        }
    }

    private void ask(final JSONObject question) {
        Runnable work = new Runnable() {
            @Override
            public void run() {
                try {
                    InetSocketAddress local = end(question.getString("local"));
                    InetSocketAddress peer = end(question.getString("peer"));
                    int uid = front.owner(question.getString("protocol").equals("tcp"), local, peer);
                    say(Messages.owner(question.getLong("question"), uid, uid < 0 ? null : front.name(uid)));
                } catch (JSONException | IOException e) {
                    // A question that is none has no answer; the engine goes on without.
                }
            }
        };
        try {
            owners.execute(work);
        } catch (RejectedExecutionException e) {
            // The session is over.
        }
    }

    /** An address and a port, as 192.0.2.1:80 or [2001:db8::1]:80. */
    static InetSocketAddress end(String text) throws IOException {
        int colon = text.lastIndexOf(':');
        boolean v6 = text.startsWith("[");
        if (colon < 1 || (v6 && text.charAt(colon - 1) != ']')) {
            throw new IOException("no address and port: " + text);
        }
        String host = v6 ? text.substring(1, colon - 1) : text.substring(0, colon);
        try {
            // An address is never looked up.
            return new InetSocketAddress(InetAddress.getByName(host), Integer.parseInt(text.substring(colon + 1)));
        } catch (NumberFormatException e) {
            throw new IOException("no port: " + text);
        }
    }
}
