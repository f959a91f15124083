package org.headstart.phone;

import android.net.LocalServerSocket;
import android.net.LocalSocket;
import android.system.ErrnoException;
import android.system.Os;
import android.system.OsConstants;
import java.io.IOException;

/** A door over Android's LocalServerSocket. */
final class LocalDoor implements Door {
    static final Maker MAKER = new Maker() {
        @Override
        public Door open(String name) throws IOException {
            return new LocalDoor(new LocalServerSocket(name));
        }
    };

    private final LocalServerSocket listener;

    private LocalDoor(LocalServerSocket listener) {
        this.listener = listener;
    }

    @Override
    public Channel accept(Child engine) throws IOException {
        while (true) {
            LocalSocket socket = listener.accept();
            // Names are no secret: only what this app has started is an engine.
            if (socket.getPeerCredentials().getUid() == android.os.Process.myUid()) {
                return new LocalChannel(socket, engine);
            }
            socket.close();
        }
    }

    @Override
    public void shut() {
        try {
            Os.shutdown(listener.getFileDescriptor(), OsConstants.SHUT_RDWR);
        } catch (ErrnoException e) {
            // It is shut.
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
