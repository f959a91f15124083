//! What a request is answered with, whatever the version of HTTP: GET and HEAD, conditional requests (RFC 9110,
//! section 13), one byte range (section 14), what lies compressed beside a file ([`coding`]), and text compressed on the fly
//! ([`compressed`]).

use super::chunks::Chunks;
use super::file::Opened;
use super::listing;
use super::site::{Found, Site};
use super::{coding, compressed};
use headstart_core::wire::range::{self, ContentRange, Selection};
use headstart_core::wire::target;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use std::time::SystemTime;

/// What follows the head of an answer.
#[derive(Debug)]
pub enum Body {
    /// Nothing.
    Empty,
    /// A text.
    Text(Bytes),
    /// Some of a file.
    File(Chunks),
}

/// The answer to `method` of `uri`.
pub fn answer(site: &Site, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n".to_owned());
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let mut answer = match target::parse(uri.path().as_bytes()) {
        Err(target::Refused::Hidden) => nothing(),
        Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
        Ok(target) => match site.find(&target) {
            Found::File(file) => {
                let answer = match coding::beside(site, &target, &file, headers) {
                    Some((coded, coding)) => of_file(coded, Some(coding), method, headers),
                    None => as_it_is_or_compressed(site, file, method, headers),
                };
                kept(answer, site.max_age())
            }
            Found::Folder(_, _) if !is_still(None, headers) => outdated(),
            Found::Folder(entries, more) => match site.pages().hold(listing::page(&decoded(&target), entries, more)) {
                Some(page) => {
                    let mut answer = text(StatusCode::OK, page);
                    set(&mut answer, header::CONTENT_TYPE, "text/html; charset=utf-8");
                    answer
                }
                None => busy(),
            },
            Found::Elsewhere => {
                let mut answer = text(StatusCode::MOVED_PERMANENTLY, "this is a folder\n".to_owned());
                let path: String = target.names.iter().map(|name| format!("/{}", target::encode(name))).collect();
                set(&mut answer, header::LOCATION, &format!("{path}/"));
                answer
            }
            Found::Nothing => nothing(),
            Found::Busy => text(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable\n".to_owned()),
            Found::Forbidden => text(StatusCode::FORBIDDEN, "access denied\n".to_owned()),
        },
    };
    if method == Method::HEAD {
        // The head says what GET would bring.
        *answer.body_mut() = Body::Empty;
    }
    answer
}

/// The answer while too many others are under way.
pub fn busy() -> Response<Body> {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "too many requests are in progress\n".to_owned());
    set(&mut answer, header::RETRY_AFTER, "1");
    answer
}

fn decoded(target: &target::Target) -> String {
    let names = target.names.iter().map(|name| String::from_utf8_lossy(name));
    names.fold("/".to_owned(), |path, name| path + &name + "/")
}

fn nothing() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "not found\n".to_owned())
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let text = text.into();
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_LENGTH, text.len().into());
    *answer.body_mut() = Body::Text(text);
    set(&mut answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

/// Sets a header to a value of our own making.
fn set<B>(answer: &mut Response<B>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Says for how long the file may be used without asking again (RFC 9111, section 5.2.2.1).
fn kept(mut answer: Response<Body>, max_age: Option<u32>) -> Response<Body> {
    let is_of_file = answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED;
    if let Some(seconds) = max_age.filter(|_| is_of_file) {
        set(&mut answer, header::CACHE_CONTROL, &format!("max-age={seconds}"));
    }
    answer
}

/// A file beside which nothing lies compressed. Ranges are of the file as it is.
fn as_it_is_or_compressed(site: &Site, file: Opened, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let wanted = compressed::may(&file) && coding::takes_gzip(headers) && !headers.contains_key(header::RANGE);
    let Some(compressor) = site.compressor().filter(|_| wanted) else { return of_file(file, None, method, headers) };
    // The same text, but not byte for byte the same each time (RFC 9110, section 8.8.1).
    let weak = format!("W/{}", file.tag);
    let is_sent = is_still(Some(&file), headers) && !is_unchanged(&file, headers);
    let result = if is_sent { compressor.gzip(&file) } else { None };
    let mut answer = of_file(file, None, method, headers);
    if answer.status() == StatusCode::NOT_MODIFIED {
        // Which of the two the client has, is unknown: a weak tag is right for both.
        set(&mut answer, header::ETAG, &weak);
    } else if let Some(result) = result {
        set(&mut answer, header::ETAG, &weak);
        set(&mut answer, header::CONTENT_ENCODING, "gzip");
        answer.headers_mut().remove(header::ACCEPT_RANGES);
        answer.headers_mut().insert(header::CONTENT_LENGTH, result.len().into());
        *answer.body_mut() = Body::Text(result);
    }
    answer
}

fn of_file(file: Opened, coding: Option<&str>, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let modified = httpdate::fmt_http_date(file.modified);
    let mut answer = Response::new(Body::Empty);
    set(&mut answer, header::ETAG, &file.tag);
    set(&mut answer, header::LAST_MODIFIED, &modified);
    set(&mut answer, header::ACCEPT_RANGES, "bytes");
    // Of one without a coding, too: another may lie beside it tomorrow.
    set(&mut answer, header::VARY, "accept-encoding");
    if !is_still(Some(&file), headers) {
        return outdated();
    }
    if is_unchanged(&file, headers) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return answer;
    }
    set(&mut answer, header::CONTENT_TYPE, &file.kind);
    if let Some(coding) = coding {
        set(&mut answer, header::CONTENT_ENCODING, coding);
    }
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // A range is of GET alone (RFC 9110, section 14.2).
    let asked = headers.get(header::RANGE).filter(|_| method == Method::GET && is_the_same(&file, headers));
    let selected = asked.map_or(Selection::Whole, |asked| range::select(asked.as_bytes(), file.length));
    let whole = Some(file.length);
    let (from, to) = match selected {
        Selection::Whole => (0, file.length),
        Selection::Part { first, last } => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let part = ContentRange { part: Some((first, last)), whole };
            set(&mut answer, header::CONTENT_RANGE, &part.to_string());
            (first, last + 1)
        }
        Selection::Nothing => {
            let mut refused =
                text(StatusCode::RANGE_NOT_SATISFIABLE, "the range is beyond the end of the file\n".to_owned());
            set(&mut refused, header::CONTENT_RANGE, &ContentRange { part: None, whole }.to_string());
            return refused;
        }
    };
    answer.headers_mut().insert(header::CONTENT_LENGTH, (to - from).into());
    *answer.body_mut() = Body::File(Chunks::new(file.file, from, to));
    answer
}

fn outdated() -> Response<Body> {
    text(StatusCode::PRECONDITION_FAILED, "the file or folder changed: the precondition failed\n".to_owned())
}

/// Whether it is what the client takes it for: If-Match, and only without it If-Unmodified-Since (RFC 9110, sections
/// 13.1.1, 13.1.4 and 13.2.2). A page that is made for each request (`None`) has neither tag nor date.
fn is_still(file: Option<&Opened>, headers: &HeaderMap) -> bool {
    let mut tags = headers.get_all(header::IF_MATCH).iter().peekable();
    if tags.peek().is_some() {
        // The strong comparison: a weak tag matches nothing.
        let ours = |tag: &str| file.is_some_and(|file| tag.trim() == file.tag);
        return tags.filter_map(|list| list.to_str().ok()).any(|list| list.trim() == "*" || list.split(',').any(ours));
    }
    match (file, headers.get(header::IF_UNMODIFIED_SINCE).and_then(date)) {
        (Some(file), Some(since)) => file.modified <= since,
        _ => true,
    }
}

/// Whether the client has it already: If-None-Match, and only without it If-Modified-Since (RFC 9110, section 13.2.2).
fn is_unchanged(file: &Opened, headers: &HeaderMap) -> bool {
    let mut tags = headers.get_all(header::IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/") == file.tag;
        return tags
            .filter_map(|list| list.to_str().ok())
            .any(|list| list.trim() == "*" || list.split(',').any(opaque));
    }
    let since = headers.get(header::IF_MODIFIED_SINCE).and_then(date);
    since.is_some_and(|since| file.modified <= since)
}

/// Whether If-Range, if it is there, names what we have: by its strong tag, or by its very date (section 13.1.5).
fn is_the_same(file: &Opened, headers: &HeaderMap) -> bool {
    let Some(validator) = headers.get(header::IF_RANGE) else { return true };
    validator.as_bytes() == file.tag.as_bytes() || date(validator).is_some_and(|date| date == file.modified)
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn site(name: &str) -> (Scratch, Site) {
        let path = std::env::temp_dir().join(format!("headstart-answer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("a b")).unwrap();
        std::fs::write(path.join("file.txt"), "0123456789").unwrap();
        std::fs::write(path.join("empty"), "").unwrap();
        let site = Site::open(&path).unwrap();
        (Scratch(path), site)
    }

    fn get(site: &Site, path: &str, headers: &[(header::HeaderName, &str)]) -> Response<Body> {
        ask(site, Method::GET, path, headers)
    }

    fn ask(site: &Site, method: Method, path: &str, headers: &[(header::HeaderName, &str)]) -> Response<Body> {
        let headers: HeaderMap = headers.iter().map(|(n, v)| (n.clone(), HeaderValue::from_str(v).unwrap())).collect();
        answer(site, &method, &path.parse().unwrap(), &headers)
    }

    fn says(answer: &Response<Body>, name: header::HeaderName) -> String {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// Status, length and range of an answer.
    fn summary(answer: &Response<Body>) -> (u16, String, String) {
        (answer.status().as_u16(), says(answer, header::CONTENT_LENGTH), says(answer, header::CONTENT_RANGE))
    }

    #[test]
    fn a_file_comes_whole_or_in_part() {
        let (_scratch, site) = site("part");
        assert_eq!(summary(&get(&site, "/file.txt", &[])), (200, "10".into(), String::new()));
        let part = |range| summary(&get(&site, "/file.txt", &[(header::RANGE, range)]));
        assert_eq!(part("bytes=2-4"), (206, "3".into(), "bytes 2-4/10".into()));
        assert_eq!(part("bytes=-1"), (206, "1".into(), "bytes 9-9/10".into()));
        assert_eq!(part("bytes=10-").0, 416);
        assert_eq!(part("bytes=10-").2, "bytes */10");
        assert_eq!(part("bytes=0-1,4-5").0, 200);
        assert_eq!(summary(&get(&site, "/empty", &[])), (200, "0".into(), String::new()));
        let answer = get(&site, "/file.txt", &[(header::RANGE, "bytes=2-4")]);
        assert!(matches!(answer.body(), Body::File(chunks) if chunks.left() == 3));
    }

    #[test]
    fn what_lies_compressed_beside_a_file_is_sent_to_who_takes_it_and_never_if_it_is_older() {
        let (scratch, site) = site("coded");
        std::fs::write(scratch.0.join("file.txt.br"), "brotli").unwrap();
        std::fs::write(scratch.0.join("file.txt.gz"), "gzip!").unwrap();
        std::fs::write(scratch.0.join("a b/index.html"), "<p>plain").unwrap();
        std::fs::write(scratch.0.join("a b/index.html.gz"), "page").unwrap();
        let sent = |path: &str, accepted: &str| {
            let answer = get(&site, path, &[(header::ACCEPT_ENCODING, accepted)]);
            assert_eq!(says(&answer, header::VARY), "accept-encoding");
            let coding = says(&answer, header::CONTENT_ENCODING);
            (coding, says(&answer, header::CONTENT_LENGTH), says(&answer, header::CONTENT_TYPE))
        };
        let text =
            |coding: &str, length: &str| (coding.to_owned(), length.to_owned(), "text/plain; charset=utf-8".into());
        assert_eq!(sent("/file.txt", "gzip, br"), text("br", "6"));
        assert_eq!((sent("/file.txt", "gzip"), sent("/file.txt", "zstd")), (text("gzip", "5"), text("", "10")));
        assert_eq!(sent("/a%20b/", "gzip").0, "gzip");
        assert_eq!(sent("/file.txt.gz", "gzip").2, "application/gzip", "it is itself");
        let tags = ["gzip", "br", "identity"]
            .map(|coding| says(&get(&site, "/file.txt", &[(header::ACCEPT_ENCODING, coding)]), header::ETAG));
        assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
        let again = [(header::ACCEPT_ENCODING, "br"), (header::IF_NONE_MATCH, &tags[1][..])];
        assert_eq!(get(&site, "/file.txt", &again).status(), 304);
        // The file was changed and what lies beside it was not.
        let old = std::fs::File::options().write(true).open(scratch.0.join("file.txt.br")).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(sent("/file.txt", "br, gzip"), text("gzip", "5"));
    }

    #[test]
    fn text_is_compressed_for_clients_that_take_it_but_no_part_of_it() {
        let (scratch, site) = site("gzip");
        for name in ["page.html", "page.png"] {
            let mut file = std::fs::File::create(scratch.0.join(name)).unwrap();
            std::io::Write::write_all(&mut file, "<p>again and again".repeat(500).as_bytes()).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let accepted = (header::ACCEPT_ENCODING, "gzip, br");
        let first = get(&site, "/page.html", std::slice::from_ref(&accepted));
        let (tag, length) = (says(&first, header::ETAG), says(&first, header::CONTENT_LENGTH));
        assert!(tag.starts_with("W/\"") && length.parse::<u64>().unwrap() < 900, "{tag} {length}");
        let heads = [header::CONTENT_ENCODING, header::VARY, header::CONTENT_TYPE, header::ACCEPT_RANGES];
        let heads = heads.map(|name| says(&first, name));
        assert_eq!(heads, ["gzip", "accept-encoding", "text/html; charset=utf-8", ""]);
        assert!(
            matches!(first.body(), Body::Text(text) if text.len().to_string() == length && text[..2] == [0x1f, 0x8b])
        );
        let head = ask(&site, Method::HEAD, "/page.html", std::slice::from_ref(&accepted));
        assert!(summary(&head).1 == length && matches!(head.body(), Body::Empty));
        let part = get(&site, "/page.html", &[accepted.clone(), (header::RANGE, "bytes=0-9")]);
        assert_eq!((part.status().as_u16(), says(&part, header::CONTENT_ENCODING)), (206, String::new()));
        let resumed = [accepted.clone(), (header::RANGE, "bytes=10-"), (header::IF_RANGE, &tag[..])];
        assert_eq!(get(&site, "/page.html", &resumed).status(), 200, "a compressed download cannot be resumed");
        let again = get(&site, "/page.html", &[accepted.clone(), (header::IF_NONE_MATCH, &tag[..])]);
        assert_eq!((again.status().as_u16(), says(&again, header::ETAG)), (304, tag.clone()));
        let plain = |path: &str, accepted: &str| {
            let answer = get(&site, path, &[(header::ACCEPT_ENCODING, accepted)]);
            (says(&answer, header::CONTENT_ENCODING), says(&answer, header::ETAG).starts_with('"'))
        };
        let as_it_is = (String::new(), true);
        assert_eq!([plain("/page.html", "br"), plain("/page.html", "gzip;q=0")], [as_it_is.clone(), as_it_is.clone()]);
        assert_eq!([plain("/page.png", "gzip"), plain("/file.txt", "gzip")], [as_it_is.clone(), as_it_is.clone()]);
        let site = site.without_compression();
        let never = get(&site, "/page.html", std::slice::from_ref(&accepted));
        assert_eq!(says(&never, header::CONTENT_ENCODING), "");
    }

    #[test]
    fn how_long_a_file_may_be_kept_is_said_of_files_alone_and_only_if_it_was_given() {
        let (_scratch, site) = site("kept");
        let said = |site: &Site, path: &str, headers: &[(header::HeaderName, &str)]| {
            says(&get(site, path, headers), header::CACHE_CONTROL)
        };
        assert_eq!(said(&site, "/file.txt", &[]), "");
        let (tag, site) = (says(&get(&site, "/file.txt", &[]), header::ETAG), site.with_max_age(Some(60)));
        for headers in [&[][..], &[(header::RANGE, "bytes=2-4")], &[(header::IF_NONE_MATCH, &tag[..])]] {
            assert_eq!(said(&site, "/file.txt", headers), "max-age=60", "{headers:?}");
        }
        for (path, headers) in [("/", &[][..]), ("/none", &[]), ("/file.txt", &[(header::RANGE, "bytes=10-")])] {
            assert_eq!(said(&site, path, headers), "", "{path}");
        }
    }

    #[test]
    fn a_part_of_what_was_replaced_is_never_sent() {
        let (_scratch, site) = site("replaced");
        let first = get(&site, "/file.txt", &[]);
        let (tag, date) = (says(&first, header::ETAG), says(&first, header::LAST_MODIFIED));
        let part = |validator: &str| {
            get(&site, "/file.txt", &[(header::RANGE, "bytes=5-"), (header::IF_RANGE, validator)]).status().as_u16()
        };
        assert_eq!((part(&tag), part(&date)), (206, 206));
        assert_eq!((part("\"other\""), part(&format!("W/{tag}")), part("no date")), (200, 200, 200));
        assert_eq!(part("Sun, 06 Nov 1994 08:49:37 GMT"), 200);
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let (_scratch, site) = site("again");
        let first = get(&site, "/file.txt", &[]);
        let (tag, date) = (says(&first, header::ETAG), says(&first, header::LAST_MODIFIED));
        let again = |name: header::HeaderName, value: &str| get(&site, "/file.txt", &[(name, value)]).status().as_u16();
        assert_eq!(again(header::IF_NONE_MATCH, &format!("\"x\", W/{tag}")), 304);
        assert_eq!((again(header::IF_NONE_MATCH, "*"), again(header::IF_NONE_MATCH, "\"x\"")), (304, 200));
        assert_eq!(again(header::IF_MODIFIED_SINCE, &date), 304);
        assert_eq!(again(header::IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT"), 200);
        let both = [(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, &date[..])];
        assert_eq!(get(&site, "/file.txt", &both).status(), 200, "the tag alone decides");
    }

    #[test]
    fn what_is_not_what_the_client_takes_it_for_is_not_sent() {
        let (_scratch, site) = site("match");
        let first = get(&site, "/file.txt", &[]);
        let (tag, date) = (says(&first, header::ETAG), says(&first, header::LAST_MODIFIED));
        let (old, new) = ("Sun, 06 Nov 1994 08:49:37 GMT", &date[..]);
        let status = |headers: &[(header::HeaderName, &str)]| get(&site, "/file.txt", headers).status().as_u16();
        let matching = |value: &str| status(&[(header::IF_MATCH, value)]);
        assert_eq!((matching(&tag), matching(&format!("\"x\" , {tag}")), matching("*")), (200, 200, 200));
        assert_eq!((matching("\"x\""), matching(&format!("W/{tag}")), matching("")), (412, 412, 412));
        let unmodified = |value: &str| status(&[(header::IF_UNMODIFIED_SINCE, value)]);
        assert_eq!((unmodified(new), unmodified(old), unmodified("no date")), (200, 412, 200));
        assert_eq!(status(&[(header::IF_MATCH, &tag), (header::IF_UNMODIFIED_SINCE, old)]), 200, "the tag decides");
        assert_eq!(status(&[(header::IF_MATCH, "\"x\""), (header::IF_NONE_MATCH, &tag)]), 412, "it comes first");
        assert_eq!(status(&[(header::IF_MATCH, "\"x\""), (header::RANGE, "bytes=0-1")]), 412);
        assert_eq!(get(&site, "/none", &[(header::IF_MATCH, "\"x\"")]).status(), 404, "only what would be sent");
        assert_eq!(get(&site, "/", &[(header::IF_MATCH, "\"x\"")]).status(), 412, "a listing has no tag");
        assert_eq!(get(&site, "/", &[(header::IF_MATCH, "*"), (header::IF_UNMODIFIED_SINCE, old)]).status(), 200);
    }

    #[test]
    fn head_says_what_get_would_bring_and_nothing_else_is_answered() {
        let (_scratch, site) = site("head");
        let head = ask(&site, Method::HEAD, "/file.txt", &[]);
        assert!(summary(&head) == (200, "10".into(), String::new()) && matches!(head.body(), Body::Empty));
        let post = ask(&site, Method::POST, "/file.txt", &[]);
        assert_eq!((post.status().as_u16(), says(&post, header::ALLOW)), (405, "GET, HEAD".into()));
    }

    #[test]
    fn folders_are_listed_and_found_without_their_slash() {
        let (_scratch, site) = site("folders");
        let moved = get(&site, "/a%20b", &[]);
        assert_eq!((moved.status().as_u16(), says(&moved, header::LOCATION)), (301, "/a%20b/".into()));
        let Body::Text(page) = get(&site, "/?q", &[]).into_body() else { panic!() };
        assert!(String::from_utf8_lossy(&page).contains("<a href=\"file.txt\">file.txt</a> 10"));
        drop(page);
        let others =
            site.pages().hold(" ".repeat(32 << 20)).expect("what is not sent any more has given its room back");
        let busy = get(&site, "/?q", &[]);
        assert_eq!((busy.status().as_u16(), says(&busy, header::RETRY_AFTER)), (503, "1".into()));
        drop(others);
        assert_eq!(get(&site, "/?q", &[]).status().as_u16(), 200);
        // A second slash would make the first name a host.
        assert_eq!(says(&get(&site, "//a%20b", &[]), header::LOCATION), "/a%20b/");
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let (scratch, site) = site("refused");
        std::fs::write(scratch.0.join(".secret"), "s").unwrap();
        let status = |path: &str| get(&site, path, &[]).status().as_u16();
        assert_eq!((status("/.secret"), status("/%2esecret"), status("/none")), (404, 404, 404));
        assert_eq!((status("/../x"), status("/%2e%2e/x"), status("/%00"), status("/a%2fb")), (400, 400, 400, 400));
    }
}
