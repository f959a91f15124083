//! Programs of others fetch from `headstart serve`: curl.

use crate::scene::{Ended, Scratch, Server, found};

/// curl with these words; its output begins with the heads of the answers if `-i` is among them.
fn curl(server: &Server, words: &[&str]) -> Option<Ended> {
    let curl = found("curl", "curl")?;
    let mut command = server.scratch.command(curl);
    command.args(["-q", "-sS", "--path-as-is", "--cacert", &server.cert()]).args(words);
    Some(Ended::of(command.output().unwrap()))
}

#[test]
fn curl_fetches_over_http2_and_http1() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("site/file.txt"), "0123456789").unwrap();
    let server = Server::start(scratch, &[]);
    let url = server.url("file.txt");
    for (flag, version) in [("--http2", "HTTP/2 "), ("--http1.1", "HTTP/1.1 ")] {
        let Some(whole) = curl(&server, &["-i", flag, &url]) else { return };
        assert!(
            whole.out.starts_with(&format!("{version}200")) && whole.out.ends_with("\r\n\r\n0123456789"),
            "{whole:?}"
        );
        let offered = format!("alt-svc: h3=\":{}\"", server.address.port());
        assert!(whole.out.to_ascii_lowercase().contains(&offered), "{whole:?}");
        let part = curl(&server, &["-i", flag, "-r", "2-4", &url]).unwrap();
        assert!(part.out.starts_with(&format!("{version}206")) && part.out.ends_with("\r\n\r\n234"), "{part:?}");
        let head = curl(&server, &["-I", flag, &url]).unwrap();
        let lower = head.out.to_ascii_lowercase();
        assert!(lower.contains("content-length: 10\r\n") && lower.ends_with("\r\n\r\n"), "{head:?}");
        let status = |more: &[&str]| {
            let words = [&["-o", "/dev/null", "-w", "%{http_code}", flag][..], more].concat();
            curl(&server, &words).unwrap().out
        };
        assert_eq!(status(&[&server.url("../../etc/passwd")]), "400");
        assert_eq!(status(&[&server.url(".ssh/id")]), "404");
        assert_eq!(status(&["-X", "DELETE", &url]), "405");
        assert_eq!(status(&["-r", "10-", &url]), "416");
    }
}

#[test]
fn curl_goes_on_with_a_file_and_lists_a_folder() {
    let scratch = Scratch::new();
    let served = scratch.file("file.bin", 200_000);
    let server = Server::start(scratch, &[]);
    let to = server.scratch.path("f");
    std::fs::write(&to, &served[..70_000]).unwrap();
    let Some(ended) = curl(&server, &["-C", "-", "-o", to.to_str().unwrap(), &server.url("file.bin")]) else { return };
    assert!(ended.code == Some(0) && std::fs::read(&to).unwrap() == served, "{ended:?}");
    let listed = curl(&server, &[&server.url("")]).unwrap();
    assert!(listed.out.contains("<a href=\"file.bin\">file.bin</a> 200000"), "{listed:?}");
}
