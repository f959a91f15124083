package org.headstart.phone;

/** How the process of an engine ended. */
final class End {
    /** Not known, or it has not ended. */
    static final End UNKNOWN = new End(-1, "");

    /** Exit codes above are signals, as Process.exitValue says them. */
    private static final int SIGNALS = 128;

    private final int code;
    /** The last line that it wrote. */
    final String last;

    End(int code, String last) {
        this.code = code;
        this.last = last;
    }

    /** The signal that killed it; 0: none did. */
    int signal() {
        return code > SIGNALS ? code - SIGNALS : 0;
    }

    /** Its exit code; negative where it has none. */
    int code() {
        return code > SIGNALS ? -1 : code;
    }

    @Override
    public String toString() {
        return "code " + code + ": " + last;
    }
}
