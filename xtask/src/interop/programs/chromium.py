"""A peer by Chromium: client CASE URL BYTES CERTIFICATE.

Chromium runs without a window, with a profile of its own, and hears what to fetch over a pipe (DevTools protocol). The client says nothing and
ends with 0 if all came as it should.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

# Fetches REQUESTS times, ten at a time; a page of the same origin may see over which protocol.
FETCH = """(async (url, requests, bytes) => {
    let left = requests;
    const one = async () => {
        while (left-- > 0) {
            const answer = await fetch(url, { cache: "no-store" });
            const came = (await answer.arrayBuffer()).byteLength;
            if (answer.status !== 200 || came !== bytes) throw new Error(`status ${answer.status}, ${came} of ${bytes} bytes`);
        }
    };
    performance.clearResourceTimings();
    performance.setResourceTimingBufferSize(2000);
    await Promise.all(Array.from({ length: 10 }, one));
    const found = performance.getEntriesByName(url);
    const others = found.filter((entry) => entry.nextHopProtocol !== "h3");
    if (found.length !== requests || others.length) {
        throw new Error(`${found.length} requests, over another protocol: ${others.map((entry) => entry.nextHopProtocol)}`);
    }
})"""


def pin(certificate):
    """The certificate's public key, as Chromium is given it."""
    key = subprocess.check_output(["openssl", "x509", "-in", certificate, "-noout", "-pubkey"])
    plain = subprocess.check_output(["openssl", "pkey", "-pubin", "-outform", "der"], input=key)
    return base64.b64encode(hashlib.sha256(plain).digest()).decode()


class Browser:
    """A browser until the end of the block."""

    def __init__(self, origin, certificate, folder):
        read, self.write = os.pipe()
        self.read, write = os.pipe()
        self.events = os.path.join(folder, "events.json")

        def pipes():
            # Chromium reads from 3 and writes to 4.
            ends = [os.dup(read), os.dup(write)]
            for number, end in zip((3, 4), ends):
                os.dup2(end, number)

        self.process = subprocess.Popen(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--remote-debugging-pipe",
                f"--user-data-dir={folder}/profile",
                f"--log-net-log={self.events}",
                f"--origin-to-force-quic-on={origin}",
                f"--ignore-certificate-errors-spki-list={pin(certificate)}",
            ],
            preexec_fn=pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self.left, self.number = b"", 0

    def told(self):
        while b"\0" not in self.left:
            part = os.read(self.read, 65536)
            if not part:
                raise EOFError("Chromium has ended")
            self.left += part
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            told = self.told()
            if told.get("id") == self.number:
                if "error" in told:
                    raise ValueError(f"{method}: {told['error']['message']}")
                return told["result"]

    def page(self, url):
        """A page that has come to its end, whatever its status."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable", session)
        failed = self.ask("Page.navigate", session, url=url).get("errorText")
        if failed:
            raise ValueError(f"{url}: {failed}")
        while self.told().get("method") != "Page.loadEventFired":
            pass
        return session

    def run(self, session, script):
        result = self.ask("Runtime.evaluate", session, expression=script, awaitPromise=True)
        if "exceptionDetails" in result:
            raise ValueError(result["exceptionDetails"]["exception"].get("description"))

    def end(self):
        """What it wrote down of its connections: early data's fate, for each."""
        self.ask("Browser.close")
        self.process.wait()
        with open(self.events) as file:
            log = json.load(file)
        kind = log["constants"]["logEventTypes"]["QUIC_SESSION_ZERO_RTT_STATE"]
        return [event["params"]["state"] for event in log["events"] if event["type"] == kind]


def client(word, url, size, certificate):
    origin = urlsplit(url).netloc
    requests = 1000 if word == "requests" else 1
    fetch = f"{FETCH}({json.dumps(url)}, {requests}, {size})"
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(origin, certificate, folder)
        try:
            page = browser.page(f"https://{origin}/none")
            browser.run(page, fetch)
            if word == "0-rtt":
                browser.run(browser.page("chrome://net-internals/#sockets"), "chrome.send('flushSocketPools')")
                browser.run(page, fetch)
            connections = browser.end()
        finally:
            browser.process.kill()
            browser.process.wait()
    # Chromium may open a connection more by itself.
    if word == "0-rtt" and (len(connections) < 2 or connections[-1] != "AttemptedAndSucceeded"):
        raise ValueError(f"early data: {connections}")


try:
    {"client": client}[sys.argv[1]](*sys.argv[2:])
except Exception as error:
    print(repr(error))
    sys.exit(1)
