package org.headstart.phone;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

/** Real processes and sockets: of programs that are no engine. Those that are one: RealEngineTest. */
public class NativeLauncherTest {
    private final BlockingQueue<Process> started = new LinkedBlockingQueue<Process>();
    private final List<String> logged = java.util.Collections.synchronizedList(new java.util.ArrayList<String>());
    private final Child.Log log = new Child.Log() {
        @Override
        public void line(String text) {
            logged.add(text);
        }
    };
    private End end;
    private int opened;
    private int closed;

    private final Door.Maker doors = new Door.Maker() {
        @Override
        public Door open(String name) throws IOException {
            opened++;
            return new Linux.Listener(name) {
                @Override
                public Channel accept(Child engine) throws IOException {
                    started.add(engine.process());
                    return super.accept(engine);
                }

                @Override
                public void close() {
                    closed++;
                    super.close();
                }
            };
        }
    };

    /** A program that never connects. */
    private void fails(int patience, String... program) {
        List<String> words = Arrays.asList(program);
        try {
            new NativeLauncher(words, doors, patience, log).launch();
            fail(words + " is an engine");
        } catch (NativeLauncher.NotConnected e) {
            end = e.end;
        } catch (IOException e) {
            assertNotNull(e.getMessage());
        }
        assertEquals(words + " leaves nothing open", opened, closed);
    }

    @Test(timeout = 60_000)
    public void whatAnEngineWritesGoesToTheLogAndHowItEndedIsSaid() {
        fails(3_600_000, "sh", "-c", "echo first; echo bad system call >&2; exit 3");
        assertEquals(Arrays.asList("first", "bad system call"), logged);
        assertEquals("3 0 bad system call", end.code() + " " + end.signal() + " " + end.last);
        fails(3_600_000, "sh", "-c", "kill -SYS $$");
        assertEquals("what Android's filter does", "-1 31", end.code() + " " + end.signal());
    }

    @Test(timeout = 60_000)
    public void anEngineThatHangsIsKilledAndNobodyWaitsForIt() throws Exception {
        // The name that it is to connect to is a word of the shell's.
        fails(200, "sh", "-c", "exec sleep 600");
        assertTrue("it is killed", started.take().waitFor(30, TimeUnit.SECONDS));
    }

    @Test(timeout = 60_000)
    public void anEngineThatEndsIsNotWaitedFor() throws Exception {
        fails(3_600_000, "false");
        assertFalse(started.take().isAlive());
    }

    @Test(timeout = 60_000)
    public void aProgramThatIsMissingIsSaid() {
        fails(3_600_000, "/nonexistent/libheadstart.so");
        assertEquals(1, opened);
    }
}
