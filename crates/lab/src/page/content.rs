//! A page with contents made up for it, so that real browsers can load what the generator draws.
//!
//! Every object gets bytes of its size and type; the document holds a table of which object waits for which and how long, and a
//! script that goes by it. What starts while the document arrives stands in its markup, at its share. What starts while
//! another object arrives starts with it. Contents are filler: scripts and style sheets are comments, images cannot be
//! decoded (which a browser notices when they are there). What never happens here: bytes of a real page.

use super::recording::{Exchange, Message, Scheme};
use super::{Kind, Object, Page, Start};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

/// The script that goes by the table `K`: the objects that wait for an object, each with its gap, kind, address and number.
const SCRIPT: &str = "function D(n){(K[n]||[]).forEach(function(k){k[0]?setTimeout(function(){L(k)},k[0]):L(k)})}\
function L(k){var t=k[1],u=k[2],n=k[3],e,d=function(){D(n)};\
if(t=='xhr'){fetch(u).then(function(r){return r.arrayBuffer()}).then(d,d);return}\
if(t=='font'){new FontFace('f'+n,'url('+u+')').load().then(d,d);return}\
e=document.createElement(t=='css'?'link':t=='js'?'script':t=='frame'?'iframe':'img');\
e.onload=e.onerror=d;if(t=='css'){e.rel='stylesheet';e.href=u}else e.src=u;\
if(t=='js')e.async=true;(document.body||document.head).appendChild(e)}";

/// The exchanges of `page`, whose hosts have these names; the first is its document's, at `/`, or a redirect to it.
///
/// # Panics
///
/// If there are fewer names than hosts, or the page does not pass [`Page::check`].
pub fn exchanges(page: &Page, names: &[String]) -> Vec<Exchange> {
    let address = |i: usize| format!("https://{}{}", names[page.objects[i].host], path(page, i));
    let all = page.objects.iter().enumerate().map(|(i, object)| {
        let (status, extra, body) = if i < page.main {
            ("302 Found", format!("Location: {}\r\n", address(i + 1)), Vec::new())
        } else if i == page.main {
            ("200 OK", String::new(), document(page, &address))
        } else {
            ("200 OK", String::new(), filler(object))
        };
        exchange(&names[object.host], &path(page, i), status, object.kind, &extra, body)
    });
    all.collect()
}

fn path(page: &Page, i: usize) -> String {
    match i {
        0 => "/".into(),
        _ => format!("/{i}.{}", extension(page.objects[i].kind)),
    }
}

fn extension(kind: Kind) -> &'static str {
    match kind {
        Kind::Doc | Kind::Frame => "html",
        Kind::Css => "css",
        Kind::Js => "js",
        Kind::Img => "png",
        Kind::Font => "woff2",
        Kind::Xhr => "json",
        Kind::Media | Kind::Other => "bin",
    }
}

fn content_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Doc | Kind::Frame => "text/html; charset=utf-8",
        Kind::Css => "text/css",
        Kind::Js => "text/javascript",
        Kind::Img => "image/png",
        Kind::Font => "font/woff2",
        Kind::Xhr => "application/json",
        Kind::Media | Kind::Other => "application/octet-stream",
    }
}

/// As the script calls it: what has no element of its own is fetched.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Css => "css",
        Kind::Js => "js",
        Kind::Img => "img",
        Kind::Font => "font",
        Kind::Doc | Kind::Frame => "frame",
        Kind::Xhr | Kind::Media | Kind::Other => "xhr",
    }
}

fn exchange(host: &str, path: &str, status: &str, kind: Kind, extra: &str, body: Vec<u8>) -> Exchange {
    let field = |line: &str| line.split_once(": ").map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()));
    let head = format!(
        "Content-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\n\
         Timing-Allow-Origin: *\r\n{extra}",
        content_type(kind),
        body.len()
    );
    Exchange {
        ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        port: 443,
        scheme: Scheme::Https,
        request: Message {
            first_line: format!("GET {path} HTTP/1.1").into_bytes(),
            fields: vec![(b"Host".to_vec(), host.as_bytes().to_vec())],
            body: Vec::new(),
        },
        response: Message {
            first_line: format!("HTTP/1.1 {status}").into_bytes(),
            fields: head.split("\r\n").filter_map(field).collect(),
            body,
        },
    }
}

fn filler(object: &Object) -> Vec<u8> {
    let length = object.response_bytes as usize;
    let (before, after) = match object.kind {
        Kind::Css | Kind::Js => ("/*", "*/"),
        Kind::Doc | Kind::Frame => ("<!doctype html><!--", "-->"),
        _ => ("", ""),
    };
    let middle = length.saturating_sub(before.len() + after.len());
    let mut body = Vec::with_capacity(length);
    body.extend(before.as_bytes());
    // A line now and then, since some programs do not like endless ones.
    body.extend((0..middle).map(|n| if n % 120 == 119 { b'\n' } else { b'.' }));
    body.extend(after.as_bytes());
    body
}

fn document(page: &Page, address: &impl Fn(usize) -> String) -> Vec<u8> {
    let mut table = String::from("var K={");
    let mut in_markup: Vec<(f64, usize)> = Vec::new();
    for parent in page.main..page.objects.len() {
        let mut row = String::new();
        for (i, object) in page.objects.iter().enumerate().skip(page.main + 1) {
            let gap = match object.structure {
                Start::After { parent: p, gap } if p == parent => gap.as_millis(),
                Start::During { parent: p, share } if p == parent && parent == page.main => {
                    in_markup.push((share, i));
                    continue;
                }
                // Under its parent's number with a sign: the script calls it as the parent begins.
                Start::During { parent: p, .. } if p == parent => 0,
                // Objects that wait for a redirect wait for what it led to.
                Start::After { parent: p, gap } if p < page.main && parent == page.main => gap.as_millis(),
                _ => continue,
            };
            // Writing to a string cannot fail.
            let _ = write!(row, "[{gap},'{}','{}',{i}],", name(object.kind), address(i));
        }
        if !row.is_empty() {
            let _ = write!(table, "{parent}:[{row}],");
        }
    }
    table.push_str("};");
    let mut body = format!(
        "<!doctype html><html><head><title>{}</title><script>{table}{SCRIPT}</script></head><body>\n",
        page.name
    );
    in_markup.sort_by(|a, b| a.0.total_cmp(&b.0));
    let length = page.objects[page.main].response_bytes as usize;
    for (share, i) in in_markup {
        pad(&mut body, (share * length as f64) as usize);
        let (object, url) = (&page.objects[i], address(i));
        let done = format!("onload=\"D({i})\" onerror=\"D({i})\"");
        let _ = match object.kind {
            Kind::Css => writeln!(body, "<link rel=stylesheet href=\"{url}\" {done}>"),
            Kind::Js => writeln!(body, "<script async src=\"{url}\" {done}></script>"),
            Kind::Img => writeln!(body, "<img alt=\"\" src=\"{url}\" {done}>"),
            Kind::Doc | Kind::Frame => writeln!(body, "<iframe src=\"{url}\" {done}></iframe>"),
            Kind::Font | Kind::Xhr | Kind::Media | Kind::Other => {
                writeln!(body, "<script>L([0,'{}','{url}',{i}])</script>", name(object.kind))
            }
        };
    }
    pad(&mut body, length.saturating_sub(60));
    let _ = write!(body, "<script>D({})</script></body></html>", page.main);
    body.into_bytes()
}

/// Fills up to `length` with a comment, if there is room for one.
fn pad(body: &mut String, length: usize) {
    let room = length.saturating_sub(body.len());
    if room > 8 {
        let _ = writeln!(body, "<!--{}-->", ".".repeat(room - 8));
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::{Answers, RequestKey};
    use super::super::synthetic;
    use super::*;

    fn names(page: &Page) -> Vec<String> {
        (0..page.hosts.len()).map(|i| format!("n{i}.lab.example")).collect()
    }

    #[test]
    fn every_object_has_an_answer_of_its_size_and_the_document_names_every_other() {
        for page in synthetic::pages(4, 20) {
            let names = names(&page);
            let all = exchanges(&page, &names);
            assert_eq!(all.len(), page.objects.len());
            let document = String::from_utf8(all[page.main].response.body.clone()).unwrap();
            for (i, (object, e)) in page.objects.iter().zip(&all).enumerate().skip(page.main + 1) {
                assert!(e.response.body.len() as u64 >= object.response_bytes, "{i}");
                let address = format!("https://{}{}", names[object.host], path(&page, i));
                assert!(document.contains(&address), "{}: {address} is in nobody's table", page.name);
            }
            let answers = Answers::new(all);
            let host = &names[page.objects[0].host];
            let first = answers.find(RequestKey { host, method: "GET", target: "/", scheme: Scheme::Https }).unwrap();
            assert_eq!(first.response.status(), Some(if page.main == 0 { 200 } else { 302 }));
        }
    }
}
