package org.headstart.phone;

import android.net.ConnectivityManager;
import android.net.LinkProperties;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.net.NetworkRequest;
import java.util.HashMap;
import java.util.Map;

/** Follows the networks below the VPN and says which is the one to use. */
final class Networks extends ConnectivityManager.NetworkCallback {
    interface Listener {
        void network(NetworkState state);
    }

    private final ConnectivityManager manager;
    private final Listener listener;
    private final Map<Network, NetworkCapabilities> has = new HashMap<Network, NetworkCapabilities>();
    private final Map<Network, LinkProperties> links = new HashMap<Network, LinkProperties>();
    private String told = "";

    Networks(ConnectivityManager manager, Listener listener) {
        this.manager = manager;
        this.listener = listener;
    }

    void begin() {
        NetworkRequest request = new NetworkRequest.Builder()
                .addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET)
                .addCapability(NetworkCapabilities.NET_CAPABILITY_NOT_VPN)
                .build();
        manager.registerNetworkCallback(request, this);
    }

    void end() {
        manager.unregisterNetworkCallback(this);
    }

    @Override
    public synchronized void onCapabilitiesChanged(Network network, NetworkCapabilities now) {
        has.put(network, now);
        choose();
    }

    @Override
    public synchronized void onLinkPropertiesChanged(Network network, LinkProperties now) {
        links.put(network, now);
        choose();
    }

    @Override
    public synchronized void onLost(Network network) {
        has.remove(network);
        links.remove(network);
        choose();
    }

    private void choose() {
        NetworkState best = NetworkState.NONE;
        for (Map.Entry<Network, LinkProperties> one : links.entrySet()) {
            NetworkState state = NetworkState.of(one.getKey(), has.get(one.getKey()), one.getValue());
            if (state.isBetterThan(best)) {
                best = state;
            }
        }
        // Signal strength and the like change all the time, and mean nothing here.
        String text;
        try {
            text = best.network + " " + best.json();
        } catch (org.json.JSONException e) {
            throw new IllegalStateException(e);
        }
        if (!text.equals(told)) {
            told = text;
            listener.network(best);
        }
    }
}
