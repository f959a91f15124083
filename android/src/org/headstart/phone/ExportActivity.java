package org.headstart.phone;

import android.content.Intent;
import android.net.Uri;
import android.view.View;
import java.io.File;

/** Measurements and packets, to be shared. */
public class ExportActivity extends Screen {
    private static final String PACKETS = "headstart.pcapng";

    private String wrong;

    @Override
    boolean showsTheSession() {
        return true;
    }

    @Override
    void fill() {
        row(getString(R.string.export_about), null);
        HeadstartVpnService service = HeadstartVpnService.running();
        final Session session = service == null ? null : service.session();
        if (session == null) {
            row(getString(R.string.needs_session), null);
            return;
        }
        button(R.string.export_lines, new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                Export.lines(session, new File(Export.folder(ExportActivity.this), "headstart.jsonl"), null, done());
            }
        });
        final boolean captures = session.captures();
        button(captures ? R.string.export_packets_stop : R.string.export_packets_start, new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                packets(session, !captures);
            }
        });
        if (wrong != null) {
            row(getString(R.string.export_failed, wrong), null);
        }
    }

    private Export.Done done() {
        return new Export.Done() {
            @Override
            public void written(final File file) {
                runOnUiThread(new Runnable() {
                    @Override
                    public void run() {
                        share(file);
                    }
                });
            }

            @Override
            public void failed(final String why) {
                runOnUiThread(new Runnable() {
                    @Override
                    public void run() {
                        wrong = why == null ? getString(R.string.export_not_now) : why;
                        show();
                    }
                });
            }
        };
    }

    private void packets(Session session, boolean begin) {
        final File file = new File(Export.folder(this), PACKETS);
        wrong = null;
        if (begin) {
            Export.capture(session, file, done());
        } else {
            Export.endCapture(session, file, done());
        }
        show();
    }

    private void share(File file) {
        Uri place = new Uri.Builder().scheme("content").authority(ExportProvider.AUTHORITY).path(file.getName()).build();
        Intent send = new Intent(Intent.ACTION_SEND)
                .setType(getContentResolver().getType(place))
                .putExtra(Intent.EXTRA_STREAM, place)
                .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION);
        startActivity(Intent.createChooser(send, getString(R.string.share)));
    }
}
