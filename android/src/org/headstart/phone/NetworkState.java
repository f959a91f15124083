package org.headstart.phone;

import android.net.LinkAddress;
import android.net.LinkProperties;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.net.RouteInfo;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.json.JSONException;
import org.json.JSONObject;

/** A network, as ConnectivityManager tells it. */
final class NetworkState {
    static final NetworkState NONE = new NetworkState();

    Network network;
    String id = "";
    String transport = "none";
    boolean metered;
    boolean validated;
    boolean captive;
    String privateDns;
    boolean v4;
    boolean v6;
    List<InetAddress> addresses = Collections.emptyList();
    List<InetAddress> dns = Collections.emptyList();

    boolean exists() {
        return v4 || v6;
    }

    static NetworkState of(Network network, NetworkCapabilities has, LinkProperties link) {
        NetworkState state = new NetworkState();
        state.network = network;
        if (has != null) {
            state.transport = transport(has);
            state.metered = !has.hasCapability(NetworkCapabilities.NET_CAPABILITY_NOT_METERED);
            state.validated = has.hasCapability(NetworkCapabilities.NET_CAPABILITY_VALIDATED);
            state.captive = has.hasCapability(NetworkCapabilities.NET_CAPABILITY_CAPTIVE_PORTAL);
        }
        if (link == null) {
            return state;
        }
        // The name of a wireless network needs a permission for places; what its routers and prefixes are tells it as well.
        StringBuilder id = new StringBuilder(String.valueOf(link.getDomains()));
        state.addresses = new ArrayList<InetAddress>();
        for (LinkAddress address : link.getLinkAddresses()) {
            if (!address.getAddress().isLinkLocalAddress()) {
                state.addresses.add(address.getAddress());
            }
        }
        for (RouteInfo route : link.getRoutes()) {
            if (route.isDefaultRoute()) {
                boolean four = route.getDestination().getAddress() instanceof Inet4Address;
                state.v4 |= four;
                state.v6 |= !four;
                id.append(' ').append(route.getGateway());
            }
        }
        state.id = id.toString();
        state.dns = new ArrayList<InetAddress>(link.getDnsServers());
        state.privateDns = link.isPrivateDnsActive() ? String.valueOf(link.getPrivateDnsServerName()) : null;
        return state;
    }

    private static String transport(NetworkCapabilities has) {
        if (has.hasTransport(NetworkCapabilities.TRANSPORT_WIFI)) {
            return "wifi";
        } else if (has.hasTransport(NetworkCapabilities.TRANSPORT_CELLULAR)) {
            return "cellular";
        } else if (has.hasTransport(NetworkCapabilities.TRANSPORT_ETHERNET)) {
            return "ethernet";
        }
        return "other";
    }

    /** Whether nothing goes through until its owner has logged in. */
    boolean wantsALogin() {
        return captive && !validated;
    }

    /** The same with these families only, as Settings has them; with all where it has none of these. */
    NetworkState of(int families) {
        if (families == Settings.BOTH || v4 != v6) {
            return this;
        }
        NetworkState some = new NetworkState();
        some.network = network;
        some.id = id;
        some.transport = transport;
        some.metered = metered;
        some.validated = validated;
        some.captive = captive;
        some.privateDns = privateDns;
        some.addresses = addresses;
        some.dns = dns;
        some.v4 = v4 && families == Settings.IPV4;
        some.v6 = v6 && families == Settings.IPV6;
        return some;
    }

    /** Whether an interface that was made for another network says what is right for this one. */
    boolean hasTheInterfaceOf(NetworkState other) {
        return v4 == other.v4 && v6 == other.v6 && metered == other.metered && dns.equals(other.dns);
    }

    /** Whether the system would rather send over this one. */
    boolean isBetterThan(NetworkState other) {
        if (exists() != other.exists()) {
            return exists();
        }
        return validated != other.validated ? validated : !metered && other.metered;
    }

    JSONObject json() throws JSONException {
        return new JSONObject()
                .put("id", id)
                .put("transport", transport)
                .put("metered", metered)
                .put("validated", validated)
                .put("captive", captive)
                .put("addresses", Messages.strings(text(addresses)))
                .put("dns", Messages.strings(text(dns)))
                .put("private_dns", privateDns == null ? JSONObject.NULL : privateDns)
                .put("v4", v4)
                .put("v6", v6);
    }

    private static List<String> text(List<InetAddress> all) {
        List<String> text = new ArrayList<String>();
        for (InetAddress one : all) {
            String address = one.getHostAddress();
            int scope = address.indexOf('%');
            text.add(scope < 0 ? address : address.substring(0, scope));
        }
        return text;
    }
}
