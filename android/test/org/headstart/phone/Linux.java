package org.headstart.phone;

import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** The system calls that Android's classes make on a phone, made by themselves: for x86_64 and aarch64, where these structures are alike. */
final class Linux {
    static {
        Native.register("c");
    }

    private static final int AF_UNIX = 1;
    private static final int SOCK_STREAM = 1;
    private static final int SOCK_CLOEXEC = 0x80000;
    private static final int SOL_SOCKET = 1;
    private static final int SO_MARK = 36;
    private static final int SCM_RIGHTS = 1;
    private static final int MSG_NOSIGNAL = 0x4000;
    private static final int MSG_CMSG_CLOEXEC = 0x40000000;
    private static final int O_RDWR = 2;
    private static final int O_CLOEXEC = 0x80000;
    private static final long TUNSETIFF = 0x400454CAL;
    private static final short IFF_TUN_NO_PI = 0x1001;
    /** Bytes of struct msghdr, and of a control message with up to four descriptors. */
    private static final int MSGHDR = 56;
    private static final int CONTROL = 32;

    private Linux() {}

    private static native int open(String path, int flags) throws LastErrorException;

    static native int close(int descriptor) throws LastErrorException;

    private static native int ioctl(int descriptor, long request, Pointer value) throws LastErrorException;

    private static native int socket(int domain, int type, int protocol) throws LastErrorException;

    private static native int bind(int socket, Pointer address, int length) throws LastErrorException;

    private static native int listen(int socket, int backlog) throws LastErrorException;

    private static native int accept(int socket, Pointer address, Pointer length) throws LastErrorException;

    private static native int setsockopt(int socket, int level, int name, Pointer value, int length) throws LastErrorException;

    static native int shutdown(int socket, int how) throws LastErrorException;

    private static native long sendmsg(int socket, Pointer message, int flags) throws LastErrorException;

    private static native long recvmsg(int socket, Pointer message, int flags) throws LastErrorException;

    /** A TUN interface without a header before packets, as Android's is. */
    static int tun(String name) {
        int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
        Memory request = new Memory(40);
        request.clear();
        request.setString(0, name);
        request.setShort(16, IFF_TUN_NO_PI);
        ioctl(tun, TUNSETIFF, request);
        return tun;
    }

    /** Has routes tell packets of a socket from others. */
    static void mark(int socket, int mark) {
        Memory value = new Memory(4);
        value.setInt(0, mark);
        setsockopt(socket, SOL_SOCKET, SO_MARK, value, 4);
    }

    /** A door of system calls. */
    static class Listener implements Door {
        private final int listener;

        Listener(String name) {
            listener = Linux.listener(name);
        }

        @Override
        public Channel accept(Child engine) throws IOException {
            try {
                return Linux.accept(listener, engine);
            } catch (LastErrorException e) {
                throw new IOException(e);
            }
        }

        @Override
        public void shut() {
            shutdown(listener, 2);
        }

        @Override
        public void close() {
            Linux.close(listener);
        }
    }

    /** A listener with an abstract name. */
    private static int listener(String name) {
        int socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        byte[] text = name.getBytes(StandardCharsets.US_ASCII);
        Memory address = new Memory(110);
        address.clear();
        address.setShort(0, (short) AF_UNIX);
        address.write(3, text, 0, text.length);
        bind(socket, address, 3 + text.length);
        listen(socket, 1);
        return socket;
    }

    /** A connection over one, as a channel. */
    private static Channel accept(int listener, final Child engine) {
        final int socket = accept(listener, null, null);
        return new Channel() {
            private int[] come = {};

            @Override
            public void send(byte[] bytes, int descriptor) throws IOException {
                for (int sent = 0; sent < bytes.length; ) {
                    Memory data = new Memory(bytes.length - sent);
                    data.write(0, bytes, sent, bytes.length - sent);
                    Memory control = null;
                    if (descriptor >= 0 && sent == 0) {
                        control = new Memory(CONTROL);
                        control.clear();
                        control.setLong(0, 20);
                        control.setInt(8, SOL_SOCKET);
                        control.setInt(12, SCM_RIGHTS);
                        control.setInt(16, descriptor);
                    }
                    try {
                        sent += (int) sendmsg(socket, message(data, control, 24), MSG_NOSIGNAL);
                    } catch (LastErrorException e) {
                        throw new IOException(e);
                    }
                }
            }

            @Override
            public int read(byte[] into, int offset, int length) throws IOException {
                Memory data = new Memory(length);
                Memory control = new Memory(CONTROL);
                control.clear();
                Memory message = message(data, control, CONTROL);
                long got;
                try {
                    got = recvmsg(socket, message, MSG_CMSG_CLOEXEC);
                } catch (LastErrorException e) {
                    throw new IOException(e);
                }
                boolean with = message.getLong(40) >= 20 && control.getInt(12) == SCM_RIGHTS;
                come = new int[with ? (int) (control.getLong(0) - 16) / 4 : 0];
                for (int n = 0; n < come.length; n++) {
                    come[n] = control.getInt(16 + 4 * n);
                }
                if (got <= 0) {
                    return -1;
                }
                data.read(0, into, offset, (int) got);
                return (int) got;
            }

            @Override
            public int[] descriptors() {
                int[] all = come;
                come = new int[0];
                return all;
            }

            @Override
            public void release(int descriptor) {
                Linux.close(descriptor);
            }

            @Override
            public End ended() {
                return engine.ended();
            }

            @Override
            public void close() {
                engine.kill();
                // Whoever reads is woken; the number is not given to another file meanwhile.
                shutdown(socket, 2);
            }
        };
    }

    private static Memory message(Memory data, Memory control, int length) {
        // struct iovec lies behind struct msghdr.
        Memory message = new Memory(MSGHDR + 16);
        message.clear();
        message.setPointer(16, message.share(MSGHDR));
        message.setLong(24, 1);
        message.setPointer(MSGHDR, data);
        message.setLong(MSGHDR + 8, data.size());
        if (control != null) {
            message.setPointer(32, control);
            message.setLong(40, length);
        }
        return message;
    }
}
