// Prints the page of a URL, or what comes back when a file is sent there, with Node's fetch: libuv's getaddrinfo.
import { readFile } from "node:fs/promises";

const [url, file] = process.argv.slice(2);
try {
  const asked = file ? { method: "POST", body: await readFile(file) } : {};
  const answer = await fetch(url, asked);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  process.stdout.write(Buffer.from(await answer.arrayBuffer()));
} catch (error) {
  console.error(String(error.cause ?? error));
  process.exitCode = 1;
}
