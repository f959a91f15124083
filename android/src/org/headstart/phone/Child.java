package org.headstart.phone;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** The process of an engine. What it writes for people goes to the log. */
final class Child {
    /** Where lines of an engine go. */
    interface Log {
        void line(String text);
    }

    /** Milliseconds that its end is waited for once its connection has ended. */
    private static final int PATIENCE = 1000;

    private final Process process;
    private final Thread reader;
    private volatile String last = "";

    /** One whose output and errors come together. */
    Child(final Process process, final Log log) {
        this.process = process;
        reader = new Thread("engine's errors") {
            @Override
            public void run() {
                readAll(log);
            }
        };
        reader.setDaemon(true);
        reader.start();
    }

    private void readAll(Log log) {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = line;
                log.line(line);
            }
        } catch (IOException e) {
            // It was killed.
        }
    }

    Process process() {
        return process;
    }

    /** How it ended; waits a moment for that. */
    End ended() {
        try {
            if (!process.waitFor(PATIENCE, TimeUnit.MILLISECONDS)) {
                return End.UNKNOWN;
            }
            reader.join(PATIENCE);
        } catch (InterruptedException e) {
            return End.UNKNOWN;
        }
        return new End(process.exitValue(), last);
    }

    /** Ends it, also where it hangs. What one that has ended by itself has written can still be read: destroying it would close that. */
    void kill() {
        if (process.isAlive()) {
            process.destroyForcibly();
        }
    }
}
