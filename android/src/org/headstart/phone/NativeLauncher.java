package org.headstart.phone;

import android.net.LocalServerSocket;
import android.net.LocalSocket;
import android.os.Process;
import java.io.File;
import java.io.IOException;
import java.util.UUID;

/** Starts the engine that lies in the package's folder for libraries, and waits for it to connect. */
final class NativeLauncher implements Launcher {
    /** Milliseconds that an engine may take to connect. */
    private static final int PATIENCE = 5000;

    private final File program;

    NativeLauncher(String libraries) {
        program = new File(libraries, "libheadstart.so");
    }

    @Override
    public Channel launch() throws IOException {
        String name = "headstart-" + UUID.randomUUID();
        final LocalServerSocket listener = new LocalServerSocket(name);
        final java.lang.Process process =
                new ProcessBuilder(program.getPath(), "@" + name).redirectErrorStream(true).start();
        // An engine that ends before it connects would be waited for without end.
        Thread watch = new Thread("engine's start") {
            @Override
            public void run() {
                try {
                    if (process.waitFor(PATIENCE, java.util.concurrent.TimeUnit.MILLISECONDS)) {
                        listener.close();
                    }
                } catch (InterruptedException | IOException e) {
                    // It has connected.
                }
            }
        };
        watch.setDaemon(true);
        watch.start();
        try {
            while (true) {
                LocalSocket socket = listener.accept();
                // Names are no secret: only what this app has started is an engine.
                if (socket.getPeerCredentials().getUid() == Process.myUid()) {
                    return new LocalChannel(socket, process);
                }
                socket.close();
            }
        } catch (IOException e) {
            process.destroy();
            throw new IOException("the engine has ended before it connected", e);
        } finally {
            watch.interrupt();
            listener.close();
        }
    }
}
