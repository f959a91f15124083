// The same as fetch.mjs, with addresses from Node's dns.resolve: c-ares, which sends its own queries and never calls
// getaddrinfo. The first IPv6 address is tried, then the first IPv4 address.
import { resolve4, resolve6 } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";

const [text, file] = process.argv.slice(2);
const url = new URL(text);
const { request } = url.protocol === "https:" ? https : http;

function ask(host, family, body) {
  return new Promise((resolve, reject) => {
    const asked = {
      host,
      family,
      port: url.port || undefined,
      path: url.pathname,
      method: body ? "POST" : "GET",
      servername: url.hostname,
      headers: { Host: url.host, ...(body ? { "Content-Length": body.length } : {}) },
      agent: false,
    };
    const sent = request(asked, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () =>
        answer.statusCode === 200 ? resolve(Buffer.concat(parts)) : reject(new Error(`status ${answer.statusCode}`)),
      );
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

try {
  const body = file ? await readFile(file) : undefined;
  const none = () => [];
  const [v6, v4] = await Promise.all([resolve6(url.hostname).catch(none), resolve4(url.hostname).catch(none)]);
  const addresses = [...v6.slice(0, 1).map((host) => [host, 6]), ...v4.slice(0, 1).map((host) => [host, 4])];
  let page;
  let failure = new Error(`${url.hostname} has no address`);
  for (const [host, family] of addresses) {
    try {
      page = await ask(host, family, body);
      break;
    } catch (error) {
      failure = error;
    }
  }
  if (page === undefined) throw failure;
  process.stdout.write(page);
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
}
