package org.headstart.phone;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.json.JSONObject;

/** An engine as the test writes it: what the app says is kept, and what the engine says comes in pieces of a byte. */
final class FakeChannel implements Channel {
    static final int WAIT = 60;

    private final BlockingQueue<int[]> bytes = new LinkedBlockingQueue<int[]>();
    private int[] last = {};
    final BlockingQueue<JSONObject> said = new LinkedBlockingQueue<JSONObject>();
    final BlockingQueue<Integer> sent = new LinkedBlockingQueue<Integer>();
    final List<Integer> released = new ArrayList<Integer>();
    volatile boolean closed;

    /** The engine says something, with a descriptor unless it is negative. */
    void tell(JSONObject message, int descriptor) {
        byte[] frame = Messages.frame(message);
        for (int n = 0; n < frame.length; n++) {
            bytes.add(n == 0 && descriptor >= 0 ? new int[] {frame[n], descriptor} : new int[] {frame[n]});
        }
    }

    void raw(int... all) {
        for (int one : all) {
            bytes.add(new int[] {one});
        }
    }

    /** The engine is gone. */
    void end() {
        bytes.add(new int[0]);
    }

    JSONObject next() throws Exception {
        JSONObject message = said.poll(WAIT, TimeUnit.SECONDS);
        if (message == null) {
            throw new IllegalStateException("the app says nothing");
        }
        return message;
    }

    @Override
    public void send(byte[] frame, int descriptor) throws IOException {
        if (closed) {
            throw new IOException("closed");
        }
        int length = ByteBuffer.wrap(frame).getInt();
        try {
            said.add(new JSONObject(new String(frame, 4, length, StandardCharsets.UTF_8)));
        } catch (org.json.JSONException e) {
            throw new IOException(e);
        }
        sent.add(descriptor);
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        try {
            last = bytes.take();
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        if (last.length == 0) {
            return -1;
        }
        into[offset] = (byte) last[0];
        return 1;
    }

    @Override
    public int[] descriptors() {
        return last.length == 2 ? new int[] {last[1]} : new int[0];
    }

    @Override
    public void release(int descriptor) {
        released.add(descriptor);
    }

    @Override
    public End ended() {
        return new End(closed ? 137 : 1, "last words");
    }

    @Override
    public void close() {
        closed = true;
        end();
    }
}
