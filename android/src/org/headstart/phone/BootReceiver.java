package org.headstart.phone;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.net.VpnService;

/** Starts the service with the phone, if its owner wants that and has allowed the VPN. */
public class BootReceiver extends BroadcastReceiver {
    @Override
    public void onReceive(Context context, Intent intent) {
        boolean wanted = Intent.ACTION_BOOT_COMPLETED.equals(intent.getAction()) && new Settings(context).atBoot();
        if (wanted && VpnService.prepare(context) == null) {
            context.startForegroundService(new Intent(context, HeadstartVpnService.class));
        }
    }
}
