package org.headstart.phone;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.net.VpnService;

/** Starts the service with the phone, if its owner wants that, and after an update of the app, if it was on; where the VPN is allowed. */
public class BootReceiver extends BroadcastReceiver {
    @Override
    public void onReceive(Context context, Intent intent) {
        Settings settings = new Settings(context);
        boolean wanted = Intent.ACTION_BOOT_COMPLETED.equals(intent.getAction()) && settings.atBoot()
                || Intent.ACTION_MY_PACKAGE_REPLACED.equals(intent.getAction()) && settings.isOn();
        if (wanted && VpnService.prepare(context) == null) {
            context.startForegroundService(new Intent(context, HeadstartVpnService.class));
        }
    }
}
