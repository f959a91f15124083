package org.headstart.phone;

import android.net.Network;
import java.net.InetAddress;

/** What is used of VpnService.Builder, which does not work off a phone. */
public interface TunBuilder {
    void session(String name);

    void mtu(int bytes);

    void address(InetAddress address, int prefix);

    void route(InetAddress destination, int prefix);

    void dns(InetAddress server);

    /** Packets of this family go as they went before. */
    void allowFamily(boolean v6);

    /** Only these apps, and those named before. */
    void only(String app);

    /** Not this app. */
    void but(String app);

    /** The network below, and whether data costs there; null where no one network is known. */
    void below(Network network, boolean metered);

    /** The descriptor of the interface, which the caller owns; negative where the system refuses. */
    int establish();
}
