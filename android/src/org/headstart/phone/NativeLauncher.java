package org.headstart.phone;

import android.util.Log;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Starts an engine as a process, and waits for it to connect. */
final class NativeLauncher implements Launcher {
    /** Milliseconds that an engine may take to connect. */
    private static final int PATIENCE = 5000;

    private final List<String> program;
    private final Door.Maker doors;
    private final int patience;
    private final Child.Log log;

    /** The engine that lies in the package's folder for libraries. */
    NativeLauncher(String libraries) {
        this(Collections.singletonList(new File(libraries, "libheadstart.so").getPath()), LocalDoor.MAKER, PATIENCE, new Child.Log() {
            @Override
            public void line(String text) {
                Log.e("headstart", text);
            }
        });
    }

    NativeLauncher(List<String> program, Door.Maker doors, int patience, Child.Log log) {
        this.log = log;
        this.program = program;
        this.doors = doors;
        this.patience = patience;
    }

    @Override
    public Channel launch() throws IOException {
        String name = "headstart-" + UUID.randomUUID();
        List<String> words = new ArrayList<String>(program);
        words.add("@" + name);
        try (Door door = doors.open(name)) {
            Process process =
                    new ProcessBuilder(words).redirectInput(new File("/dev/null")).redirectErrorStream(true).start();
            Child child = new Child(process, log);
            try (Watch watch = new Watch(process, door)) {
                watch.start();
                return door.accept(child);
            } catch (IOException e) {
                child.kill();
                throw new NotConnected(child.ended());
            }
        }
    }

    /** An engine did not connect. */
    static final class NotConnected extends IOException {
        final transient End end;

        NotConnected(End end) {
            super(end.last);
            this.end = end;
        }
    }

    /** An engine that ends before it connects, or hangs, would be waited for without end: this shuts the door to it. */
    private final class Watch extends Thread implements AutoCloseable {
        private final Process process;
        private final Door door;
        private boolean over;

        Watch(Process process, Door door) {
            super("engine's start");
            this.process = process;
            this.door = door;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                process.waitFor(patience, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                return;
            }
            shut();
        }

        private synchronized void shut() {
            // The number of a door that is closed may be another file's.
            if (!over) {
                door.shut();
            }
        }

        @Override
        public synchronized void close() {
            over = true;
            interrupt();
        }
    }
}
