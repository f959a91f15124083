package org.headstart.phone;

import java.io.Closeable;
import java.io.IOException;

/** A connected Unix stream socket that takes descriptors along: LocalSocket on a phone, system calls in tests. */
public interface Channel extends Closeable {
    /** Sends all bytes; the descriptor goes with the first one, unless it is negative. */
    void send(byte[] bytes, int descriptor) throws IOException;

    /** Reads at least a byte, at most length; -1 at the end. */
    int read(byte[] into, int offset, int length) throws IOException;

    /** Descriptors that came with what was read last; the caller owns them. */
    int[] descriptors() throws IOException;

    /** Closes a descriptor that has come. */
    void release(int descriptor);

    /** How the engine ended, once its connection has; waits a moment for that. */
    End ended();

    /** Ends the connection, and kills the engine if it is still there. */
    @Override
    void close() throws IOException;
}
