package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Application;
import android.content.Context;
import android.content.Intent;
import android.net.ConnectivityManager;
import android.net.LinkAddress;
import android.net.LinkProperties;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.os.Looper;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONObject;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ServiceController;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowVpnService;

@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35)
public class ServiceTest {
    private final Application context = RuntimeEnvironment.getApplication();
    private ServiceController<HeadstartVpnService> controller;

    @Before
    public void begin() {
        controller = Robolectric.buildService(HeadstartVpnService.class).create();
    }

    @After
    public void end() {
        controller.destroy();
        assertNull("nothing runs after the end", HeadstartVpnService.running());
    }

    @Test
    public void theServiceRunsInTheForegroundUntilItIsStopped() {
        controller.withIntent(new Intent(context, HeadstartVpnService.class)).startCommand(0, 1);
        HeadstartVpnService service = controller.get();
        assertEquals(service, HeadstartVpnService.running());
        assertNotNull(shadowOf(service).getLastForegroundNotification());
        Session session = service.session();
        controller.startCommand(0, 2);
        assertEquals("a second start is none", session, service.session());
        controller.withIntent(new Intent(HeadstartVpnService.STOP)).startCommand(0, 3);
        assertTrue(shadowOf(service).isStoppedBySelf() && shadowOf(service).isForegroundStopped());
        assertEquals(Session.State.OFF, session.state());
    }

    @Test
    public void aServiceThatTheSystemStartsWithoutAWordBeginsAndOneThatIsRevokedEnds() {
        // Always on, or started again after it was killed.
        assertEquals(android.app.Service.START_STICKY, controller.get().onStartCommand(null, 0, 1));
        assertNotNull(HeadstartVpnService.running());
        controller.get().onRevoke();
        assertNull(HeadstartVpnService.running());
    }

    @Test(timeout = 60_000)
    public void aServiceThatIsRevokedOnTwoThreadsAtOnceEndsOnce() throws Exception {
        controller.get().onStartCommand(null, 0, 1);
        final List<Throwable> thrown = java.util.Collections.synchronizedList(new ArrayList<Throwable>());
        Thread[] both = new Thread[2];
        // Ending needs the lock of the session: the first thread is in the middle of it when the second comes.
        synchronized (controller.get().session()) {
            for (int n = 0; n < both.length; n++) {
                both[n] = new Thread() {
                    @Override
                    public void run() {
                        try {
                            controller.get().onRevoke();
                        } catch (RuntimeException e) {
                            thrown.add(e);
                        }
                    }
                };
                both[n].start();
                while (both[n].isAlive() && both[n].getState() != Thread.State.BLOCKED) {
                    Thread.sleep(5);
                }
            }
        }
        for (Thread one : both) {
            one.join();
        }
        assertEquals(java.util.Collections.emptyList(), thrown);
        assertNull(HeadstartVpnService.running());
    }

    @Test
    public void theStateOfTheDeviceIsToldWhenItChanges() throws Exception {
        final List<JSONObject> told = new ArrayList<JSONObject>();
        DeviceState device = new DeviceState(context, new DeviceState.Listener() {
            @Override
            public void device(JSONObject state) {
                told.add(state);
            }
        });
        device.begin();
        context.sendBroadcast(new Intent(Intent.ACTION_SCREEN_OFF));
        shadowOf(Looper.getMainLooper()).idle();
        assertEquals("nothing has changed", 1, told.size());
        android.os.PowerManager power = (android.os.PowerManager) context.getSystemService(Context.POWER_SERVICE);
        shadowOf(power).setIsPowerSaveMode(true);
        context.sendBroadcast(new Intent(android.os.PowerManager.ACTION_POWER_SAVE_MODE_CHANGED));
        shadowOf(Looper.getMainLooper()).idle();
        assertEquals(2, told.size());
        assertTrue(told.get(1).getBoolean("power_save") && !told.get(0).getBoolean("power_save"));
        device.end();
    }

    @Test
    public void theBestNetworkIsTheOneThatIsUsed() throws Exception {
        final List<NetworkState> told = new ArrayList<NetworkState>();
        ConnectivityManager manager = (ConnectivityManager) context.getSystemService(Context.CONNECTIVITY_SERVICE);
        Networks networks = new Networks(manager, new Networks.Listener() {
            @Override
            public void network(NetworkState state) {
                told.add(state);
            }
        });
        networks.begin();
        Network mobile = org.robolectric.shadows.ShadowNetwork.newInstance(1);
        Network wifi = org.robolectric.shadows.ShadowNetwork.newInstance(2);
        networks.onLinkPropertiesChanged(mobile, link("10.0.0.7", "0.0.0.0/0"));
        assertTrue(told.get(0).v4 && !told.get(0).v6 && told.get(0).metered == false);
        networks.onLinkPropertiesChanged(mobile, link("10.0.0.7", "0.0.0.0/0"));
        assertEquals("the same is not told again", 1, told.size());
        NetworkCapabilities good = org.robolectric.shadows.ShadowNetworkCapabilities.newInstance();
        shadowOf(good).addTransportType(NetworkCapabilities.TRANSPORT_WIFI);
        shadowOf(good).addCapability(NetworkCapabilities.NET_CAPABILITY_VALIDATED);
        networks.onCapabilitiesChanged(wifi, good);
        networks.onLinkPropertiesChanged(wifi, link("192.0.2.7", "0.0.0.0/0"));
        NetworkState now = told.get(told.size() - 1);
        assertEquals("wifi", now.transport);
        assertEquals("192.0.2.7", now.json().getJSONArray("addresses").getString(0));
        networks.onLost(wifi);
        networks.onLost(mobile);
        assertFalse(told.get(told.size() - 1).exists());
        networks.end();
    }

    private static LinkProperties link(String address, String route) throws Exception {
        LinkProperties link = new LinkProperties();
        InetAddress own = InetAddress.getByName(address);
        link.addLinkAddress((LinkAddress) LinkAddress.class.getConstructor(InetAddress.class, int.class).newInstance(own, 24));
        android.net.IpPrefix all = android.net.IpPrefix.class.getConstructor(String.class).newInstance(route);
        link.addRoute(android.net.RouteInfo.class
                .getConstructor(android.net.IpPrefix.class, InetAddress.class)
                .newInstance(all, InetAddress.getByName("192.0.2.1")));
        return link;
    }

    @Test
    public void thePhonesStartStartsTheServiceOnlyIfThatIsWantedAndAllowed() {
        Intent booted = new Intent(Intent.ACTION_BOOT_COMPLETED);
        new BootReceiver().onReceive(context, booted);
        assertNull("not wanted", shadowOf(context).getNextStartedService());
        new Settings(context).atBoot(true);
        ShadowVpnService.setPrepareResult(new Intent("ask"));
        new BootReceiver().onReceive(context, booted);
        assertNull("not allowed", shadowOf(context).getNextStartedService());
        ShadowVpnService.setPrepareResult(null);
        new BootReceiver().onReceive(context, new Intent("other"));
        assertNull("not this", shadowOf(context).getNextStartedService());
        new BootReceiver().onReceive(context, booted);
        assertNotNull(shadowOf(context).getNextStartedService());
    }

    @Test
    public void afterAnUpdateOfTheAppItGoesOnIfItWasOn() {
        Intent replaced = new Intent(Intent.ACTION_MY_PACKAGE_REPLACED);
        ShadowVpnService.setPrepareResult(null);
        new BootReceiver().onReceive(context, replaced);
        assertNull("it was never on", shadowOf(context).getNextStartedService());
        controller.get().onStartCommand(null, 0, 1);
        controller.get().onDestroy();
        new BootReceiver().onReceive(context, replaced);
        assertNotNull("its owner had it on", shadowOf(context).getNextStartedService());
        controller.get().onStartCommand(new Intent(HeadstartVpnService.STOP), 0, 2);
        new BootReceiver().onReceive(context, replaced);
        assertNull("its owner stopped it", shadowOf(context).getNextStartedService());
    }

    @Test
    public void namesOfAppsAreThePackageManagers() {
        shadowOf(context.getPackageManager()).setNameForUid(10123, "org.example.shared:10123");
        Owners owners = new Owners(context);
        assertEquals("org.example.shared", owners.name(10123));
        assertEquals("uid 99999", owners.name(99999));
    }

    @Test
    public void settingsStayAndAreTold() throws Exception {
        Settings settings = new Settings(context);
        assertEquals("{\"accelerate\":true,\"ahead\":false,\"race\":\"adaptive\",\"cache\":\"ttl\"}", settings.json().toString());
        settings.accelerate(false);
        settings.ahead(true);
        settings.race("sequential");
        settings.keepsForAnHour(true);
        settings.apps(Settings.BUT);
        settings.choose("org.example.a", true);
        settings.choose("org.example.b", true);
        settings.choose("org.example.a", false);
        Settings later = new Settings(context);
        assertEquals("{\"accelerate\":false,\"ahead\":true,\"race\":\"sequential\",\"cache\":\"3600s\"}", later.json().toString());
        assertEquals("[org.example.b]", later.chosen().toString());
        assertEquals(Settings.BUT, later.apps());
    }
}
