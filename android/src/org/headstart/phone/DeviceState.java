package org.headstart.phone;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.content.IntentFilter;
import android.os.BatteryManager;
import android.os.PowerManager;
import org.json.JSONException;
import org.json.JSONObject;

/** The state of the phone that a measurement carries, told when it changes: nothing is asked in between. */
final class DeviceState extends BroadcastReceiver {
    interface Listener {
        void device(JSONObject state);
    }

    private final Context context;
    private final Listener listener;
    private String told = "";

    DeviceState(Context context, Listener listener) {
        this.context = context;
        this.listener = listener;
    }

    void begin() {
        IntentFilter changes = new IntentFilter();
        changes.addAction(PowerManager.ACTION_POWER_SAVE_MODE_CHANGED);
        changes.addAction(PowerManager.ACTION_DEVICE_IDLE_MODE_CHANGED);
        changes.addAction(Intent.ACTION_SCREEN_ON);
        changes.addAction(Intent.ACTION_SCREEN_OFF);
        changes.addAction(Intent.ACTION_BATTERY_LOW);
        changes.addAction(Intent.ACTION_BATTERY_OKAY);
        changes.addAction(Intent.ACTION_POWER_CONNECTED);
        changes.addAction(Intent.ACTION_POWER_DISCONNECTED);
        context.registerReceiver(this, changes);
        onReceive(context, null);
    }

    void end() {
        context.unregisterReceiver(this);
    }

    @Override
    public void onReceive(Context unused, Intent intent) {
        JSONObject now = look(context);
        if (!now.toString().equals(told)) {
            told = now.toString();
            listener.device(now);
        }
    }

    /** The state now. What is not known is left out. */
    static JSONObject look(Context context) {
        JSONObject state = new JSONObject();
        try {
            Intent battery = context.registerReceiver(null, new IntentFilter(Intent.ACTION_BATTERY_CHANGED));
            int level = battery == null ? -1 : battery.getIntExtra(BatteryManager.EXTRA_LEVEL, -1);
            int scale = battery == null ? 0 : battery.getIntExtra(BatteryManager.EXTRA_SCALE, 0);
            if (level >= 0 && scale > 0) {
                state.put("battery", 100 * level / scale);
                state.put("charging", battery.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0);
            }
            PowerManager power = (PowerManager) context.getSystemService(Context.POWER_SERVICE);
            state.put("power_save", power.isPowerSaveMode());
            state.put("doze", power.isDeviceIdleMode());
            state.put("screen", power.isInteractive());
            state.put("thermal", power.getCurrentThermalStatus());
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
        return state;
    }
}
