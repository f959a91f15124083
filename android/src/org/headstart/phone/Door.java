package org.headstart.phone;

import java.io.Closeable;
import java.io.IOException;

/** A listening Unix socket at which one engine connects: LocalServerSocket on a phone, system calls in tests. */
interface Door extends Closeable {
    /** Opens doors. */
    interface Maker {
        /** One with this name in the abstract namespace (unix(7)). */
        Door open(String name) throws IOException;
    }

    /** Waits for an engine that this app has started; the connection to it. */
    Channel accept(Child engine) throws IOException;

    /** Has accept fail, also one that waits on another thread, which closing does not wake. */
    void shut();
}
