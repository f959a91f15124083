package org.headstart.phone;

import java.io.IOException;

/** Starts an engine. */
public interface Launcher {
    /** Starts one as a process of its own; the connection to it. Its end is the end of the connection. */
    Channel launch() throws IOException;
}
