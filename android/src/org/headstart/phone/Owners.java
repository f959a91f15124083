package org.headstart.phone;

import android.content.Context;
import android.content.pm.PackageManager;
import android.net.ConnectivityManager;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;

/** Whose flows are, and what these apps are called. The name of a uid is looked up once. */
final class Owners {
    private static final int TCP = 6;
    private static final int UDP = 17;

    private final ConnectivityManager connectivity;
    private final PackageManager packages;
    private final Map<Integer, String> names = new HashMap<Integer, String>();

    Owners(Context context) {
        connectivity = (ConnectivityManager) context.getSystemService(Context.CONNECTIVITY_SERVICE);
        packages = context.getPackageManager();
    }

    /** Negative if the system does not know, or does not say: it does to the VPN's own app alone. */
    int uid(boolean tcp, InetSocketAddress local, InetSocketAddress peer) {
        try {
            return connectivity.getConnectionOwnerUid(tcp ? TCP : UDP, local, peer);
        } catch (SecurityException e) {
            return -1;
        }
    }

    /** The package, or the shared name, of a uid. */
    synchronized String name(int uid) {
        String name = names.get(uid);
        if (name == null) {
            name = packages.getNameForUid(uid);
            name = name == null ? "uid " + uid : name.split(":")[0];
            names.put(uid, name);
        }
        return name;
    }
}
