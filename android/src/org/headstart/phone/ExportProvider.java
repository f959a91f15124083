package org.headstart.phone;

import android.content.ContentProvider;
import android.content.ContentValues;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileNotFoundException;

/** Lends exported files, read only, to the app that they are shared with. */
public class ExportProvider extends ContentProvider {
    static final String AUTHORITY = "org.headstart.phone.exports";

    @Override
    public boolean onCreate() {
        return true;
    }

    /** The file of a name; never one outside the folder. */
    private File file(Uri place) throws FileNotFoundException {
        File file = new File(Export.folder(getContext()), String.valueOf(place.getLastPathSegment()));
        if (!file.getParentFile().equals(Export.folder(getContext())) || !file.isFile()) {
            throw new FileNotFoundException(place.toString());
        }
        return file;
    }

    @Override
    public ParcelFileDescriptor openFile(Uri place, String mode) throws FileNotFoundException {
        if (!mode.equals("r")) {
            throw new FileNotFoundException("exports are read only");
        }
        return ParcelFileDescriptor.open(file(place), ParcelFileDescriptor.MODE_READ_ONLY);
    }

    @Override
    public Cursor query(Uri place, String[] columns, String where, String[] values, String order) {
        MatrixCursor cursor = new MatrixCursor(new String[] {OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE});
        try {
            File file = file(place);
            cursor.addRow(new Object[] {file.getName(), file.length()});
        } catch (FileNotFoundException e) {
            // No row.
        }
        return cursor;
    }

    @Override
    public String getType(Uri place) {
        return String.valueOf(place.getPath()).endsWith(".jsonl") ? "application/x-ndjson" : "application/octet-stream";
    }

    @Override
    public Uri insert(Uri place, ContentValues values) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int delete(Uri place, String where, String[] values) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int update(Uri place, ContentValues values, String where, String[] more) {
        throw new UnsupportedOperationException();
    }
}
