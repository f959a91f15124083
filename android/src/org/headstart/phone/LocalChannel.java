package org.headstart.phone;

import android.net.LocalSocket;
import android.os.ParcelFileDescriptor;
import android.system.ErrnoException;
import android.system.Os;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.OutputStream;

/** A channel over Android's LocalSocket. */
final class LocalChannel implements Channel {
    private static final int[] NONE = {};

    private final LocalSocket socket;
    private final Child engine;

    LocalChannel(LocalSocket socket, Child engine) {
        this.socket = socket;
        this.engine = engine;
    }

    @Override
    public void send(byte[] bytes, int descriptor) throws IOException {
        OutputStream out = socket.getOutputStream();
        if (descriptor < 0) {
            out.write(bytes);
            return;
        }
        ParcelFileDescriptor copy = ParcelFileDescriptor.fromFd(descriptor);
        try {
            socket.setFileDescriptorsForSend(new FileDescriptor[] {copy.getFileDescriptor()});
            // All that goes from now on until they are taken back goes with them: the first byte alone.
            out.write(bytes, 0, 1);
            socket.setFileDescriptorsForSend(null);
            out.write(bytes, 1, bytes.length - 1);
        } finally {
            copy.close();
        }
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        return socket.getInputStream().read(into, offset, length);
    }

    @Override
    public int[] descriptors() throws IOException {
        FileDescriptor[] come = socket.getAncillaryFileDescriptors();
        if (come == null) {
            return NONE;
        }
        int[] numbers = new int[come.length];
        for (int n = 0; n < come.length; n++) {
            numbers[n] = ParcelFileDescriptor.dup(come[n]).detachFd();
            try {
                Os.close(come[n]);
            } catch (ErrnoException e) {
                throw new IOException(e);
            }
        }
        return numbers;
    }

    @Override
    public void release(int descriptor) {
        try {
            ParcelFileDescriptor.adoptFd(descriptor).close();
        } catch (IOException e) {
            // It is closed.
        }
    }

    @Override
    public End ended() {
        return engine.ended();
    }

    @Override
    public void close() throws IOException {
        // The peer of a socket that waits: whoever reads it is woken.
        engine.kill();
        socket.shutdownInput();
        socket.close();
    }
}
