//! The C header is what cbindgen makes of the C interface. `HEADSTART_BLESS=1 cargo test -p headstart-realtime --test header`
//! writes it anew.

use cbindgen::{Builder, Config, DocumentationStyle, Language};
use std::path::Path;

const OPENING: &str =
    "/* Small messages over TCP that do not wait behind a lost segment. Calls wait. Any function may be called by several threads at
   once on the same session or listener, but what closes it: no other call on it may be under way then, or follow.
   Made from src/ffi.rs by cbindgen: change that, and have tests/header.rs write this. */";

#[test]
fn the_header_is_what_the_interface_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let style = Config { usize_is_size_t: true, documentation_style: DocumentationStyle::C, ..Config::default() };
    let builder = Builder::new()
        .with_config(style)
        .with_language(Language::C)
        .with_header(OPENING)
        .with_include_guard("HEADSTART_REALTIME_H")
        .with_no_includes()
        .with_sys_include("stddef.h")
        .with_sys_include("stdint.h")
        .with_cpp_compat(true)
        .with_line_length(120)
        .rename_item("Session", "hs_session")
        .rename_item("Listener", "hs_listener")
        .rename_item("Statistics", "hs_statistics")
        .with_src(root.join("src/ffi.rs"))
        .with_src(root.join("src/blocking.rs"));
    let mut made = Vec::new();
    builder.generate().expect("the C interface can be read").write(&mut made);
    let made = String::from_utf8(made).expect("a header is text");
    let file = root.join("include/headstart_realtime.h");
    if std::env::var_os("HEADSTART_BLESS").is_some() {
        std::fs::write(&file, &made).expect("the header can be written");
    }
    let kept = std::fs::read_to_string(&file).expect("there is a header");
    assert!(
        kept == made,
        "{} is not what src/ffi.rs says; see the top of this test. It would be:\n{made}",
        file.display()
    );
}
