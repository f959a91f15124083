//! A load of Chromium's, written as HAR 1.2: for other programs, and for the lab's own reader.

use super::BrowserLoad;
use serde_json::{Value, json};

impl BrowserLoad {
    /// The archive, of a page called `title`. The load is said to have begun with the year 2000: nothing in it depends on when
    /// it was measured.
    pub fn har(&self, title: &str) -> Value {
        let entries: Vec<Value> = self.requests.iter().map(|r| {
            let phase = |v: Option<f64>| v.unwrap_or(-1.0);
            let end = r.end.unwrap_or(r.began);
            json!({
                "pageref": "page_1",
                "startedDateTime": moment(r.began),
                "time": end - r.began,
                "request": { "method": r.method, "url": r.url, "httpVersion": r.protocol, "headers": [], "queryString": [],
                    "cookies": [], "headersSize": -1, "bodySize": -1 },
                "response": { "status": r.status.unwrap_or(0), "statusText": "", "httpVersion": r.protocol, "headers": [],
                    "cookies": [], "content": { "size": r.bytes, "mimeType": r.mime }, "redirectURL": "",
                    "headersSize": -1, "bodySize": -1, "_transferSize": r.bytes, "_error": r.failed },
                "cache": {},
                "timings": { "blocked": -1, "dns": phase(r.dns), "connect": phase(r.connect), "ssl": phase(r.tls), "send": 0,
                    "wait": r.wait.unwrap_or(0.0), "receive": r.receive.unwrap_or(0.0) },
                "serverIPAddress": r.address,
            })
        }).collect();
        json!({ "log": {
            "version": "1.2",
            "creator": { "name": "headstart", "version": env!("CARGO_PKG_VERSION") },
            "pages": [{ "id": "page_1", "title": title, "startedDateTime": moment(0.0),
                "pageTimings": { "onContentLoad": self.content_loaded, "onLoad": self.load,
                    "_firstContentfulPaint": self.first_paint, "_largestContentfulPaint": self.largest_paint } }],
            "entries": entries,
        } })
    }
}

/// Milliseconds since the load began, as a time of day.
fn moment(ms: f64) -> String {
    let ms = ms.max(0.0) as u64;
    format!("2000-01-01T00:{:02}:{:02}.{:03}Z", ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use crate::page::{Kind, Start, har};
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_as_the_same_page() {
        let request = |url: &str, mime: &str, began: f64| Request {
            url: url.into(),
            method: "GET".into(),
            status: Some(200),
            protocol: "h2".into(),
            mime: mime.into(),
            began,
            end: Some(began + 80.0),
            bytes: 999.0,
            wait: Some(20.0),
            receive: Some(10.0),
            ..Request::default()
        };
        let requests = vec![
            request("https://a.example/", "text/html", 0.0),
            request("https://b.example/x.js", "text/javascript", 100.0),
        ];
        let load = BrowserLoad {
            load: 200.0,
            content_loaded: 100.0,
            first_byte: 50.0,
            first_paint: None,
            largest_paint: None,
            requests,
        };
        let page = har::parse(load.har("a").to_string().as_bytes(), Path::new("a.har")).unwrap();
        assert_eq!((page.objects[0].kind, page.objects[1].kind, page.hosts.len()), (Kind::Doc, Kind::Js, 2));
        let Start::After { parent: 0, gap } = page.objects[1].structure else { panic!("{page:?}") };
        assert_eq!((gap.as_millis(), page.bytes()), (20, 1998));
    }
}
