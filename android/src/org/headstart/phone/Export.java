package org.headstart.phone;

import android.os.ParcelFileDescriptor;
import java.io.File;
import java.io.IOException;
import org.json.JSONException;
import org.json.JSONObject;

/** Files that the engine writes, in the app's own cache. */
final class Export {
    /** Told when a file is written, or why it is not. */
    interface Done {
        void written(File file);

        /** Null: the engine does not run, or writes another file. */
        void failed(String why);
    }

    private static final int MODE =
            ParcelFileDescriptor.MODE_CREATE | ParcelFileDescriptor.MODE_TRUNCATE | ParcelFileDescriptor.MODE_READ_WRITE;

    private Export() {}

    /** Where files lie that may be shared. */
    static File folder(android.content.Context context) {
        File folder = new File(context.getCacheDir(), "exports");
        folder.mkdirs();
        return folder;
    }

    /** Writes the latest lines, of one app or of all. */
    static void lines(Session session, final File file, String app, final Done done) {
        try {
            write(session, Messages.exportLines(app), file, done);
        } catch (JSONException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Begins to write packets. */
    static void capture(Session session, File file, Done done) {
        try (ParcelFileDescriptor open = ParcelFileDescriptor.open(file, MODE)) {
            if (!session.capture(open.getFd())) {
                done.failed(null);
            }
        } catch (IOException e) {
            done.failed(String.valueOf(e.getMessage()));
        }
    }

    /** Writes packets no longer. */
    static void endCapture(Session session, File file, Done done) {
        if (!session.endCapture(answer(file, done))) {
            done.failed(null);
        }
    }

    private static void write(Session session, JSONObject message, File file, Done done) {
        try (ParcelFileDescriptor open = ParcelFileDescriptor.open(file, MODE)) {
            if (!session.export(message, open.getFd(), answer(file, done))) {
                done.failed(null);
            }
        } catch (IOException e) {
            done.failed(String.valueOf(e.getMessage()));
        }
    }

    private static Session.Answer answer(final File file, final Done done) {
        return new Session.Answer() {
            @Override
            public void said(JSONObject answer) {
                if (answer != null && answer.optString("kind").equals("exported")) {
                    done.written(file);
                } else {
                    done.failed(answer == null ? null : answer.optString("what"));
                }
            }
        };
    }
}
