//! What the page of `headstart ui` looks like: each view with one recorded state, light on a desk and dark on a phone, compared with pictures
//! that somebody has looked at. Small ones, in which letters are grey, so that other fonts and other versions of Chromium draw the same.
//!
//! `HEADSTART_SCREENS=keep` takes the pictures again, `HEADSTART_SCREENS=FOLDER` writes them there as large as the screen.

use crate::lab::{Lab, found, inside};
use crate::seen::{serving, stop};
use crate::seen_page::browser;
use headstart_lab::browser::{Chromium, Screen};
use std::fs;
use std::path::{Path, PathBuf};

const STATE: &str = include_str!("screens/recorded.js");

/// The views, and what each shows when it is there.
const VIEWS: [(&str, &str, &str); 11] = [
    ("now", "now", "www.lab.example"),
    ("programs", "programs", "curl"),
    ("network", "network", "in use"),
    ("connection", "connection/www.lab.example", "handed over"),
    ("host", "host", "What it has changed"),
    ("steering", "steering", "pkt-state"),
    ("messages", "messages", "realtime send"),
    ("lab", "lab", "monday"),
    ("lab-one", "lab/0%252Fmonday", "95 % interval"),
    ("lab-two", "lab/0%252Fmonday|0%252Ftuesday", "Rows of both runs"),
    ("nothing", "now", "Nothing yet"),
];
const SCREENS: [(&str, Screen); 2] = [
    ("desk", Screen { width: 1280, height: 1600, dark: false }),
    ("phone", Screen { width: 375, height: 1600, dark: true }),
];

/// How large a picture is that is kept.
const SCALE: f64 = 0.125;
/// A pixel is another if a channel differs by more than this, of 255.
const CHANNEL: u32 = 40;
/// The share of pixels that may be others, in percent of those on which something is drawn: what another font moves.
const OTHERS: f64 = 8.0;

/// Has the page ask nothing but the recorded state.
fn recorded(empty: bool) -> String {
    format!("(() => {{ const EMPTY = {empty};\n{STATE} }})();")
}

/// The picture of a view, in base64.
fn taken(chromium: &mut Chromium, url: &str, at: (Screen, f64), (name, view, words): (&str, &str, &str)) -> String {
    let steps = format!(
        "(async () => {{ location.hash = '#{view}'; const main = document.querySelector('main'); \
         for (let n = 0; n < 600 && !(recorded() && main.innerText.includes({words:?})); n += 1) await new Promise((go) => setTimeout(go, 50)); \
         for (let n = 0; n < 3; n += 1) await new Promise(requestAnimationFrame); return main.innerText; }})()"
    );
    let (picture, told) = chromium.picture(at, url, &recorded(name == "nothing"), &steps).unwrap();
    assert!(told.as_str().is_some_and(|told| told.contains(words)), "{name}: {told}");
    picture
}

/// The share of pixels in which two pictures in base64 differ, in percent of those that are not of the background, which is in the corner; 100
/// if they are not of one size.
fn differ(chromium: &mut Chromium, one: &str, other: &str) -> f64 {
    let steps = format!(
        "(async () => {{ const pixels = async (text) => {{ const image = new Image(); image.src = `data:image/png;base64,${{text}}`; \
           await image.decode(); const canvas = new OffscreenCanvas(image.width, image.height); const on = canvas.getContext('2d'); \
           on.drawImage(image, 0, 0); return on.getImageData(0, 0, image.width, image.height); }}; \
         const [a, b] = [await pixels('{one}'), await pixels('{other}')]; \
         if (a.width !== b.width || a.height !== b.height) return 100; \
         const apart = (one, at, two, from, most) => [0, 1, 2].some((n) => Math.abs(one.data[at + n] - two.data[from + n]) > most); \
         let [others, drawn] = [0, 1]; \
         for (let at = 0; at < a.data.length; at += 4) {{ \
           drawn += apart(a, at, a, 0, 8) || apart(b, at, b, 0, 8); others += apart(a, at, b, at, {CHANNEL}); }} \
         return 100 * others / drawn; }})()"
    );
    let (share, thrown) = chromium.evaluate("about:blank", &steps).unwrap();
    share.as_f64().unwrap_or_else(|| panic!("{thrown:?}"))
}

/// A file beside the test.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/screens").join(name)
}

fn decoded(picture: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(picture).unwrap()
}

fn encoded(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

inside!(every_view_looks_as_it_did_when_somebody_looked, || {
    let Some(_) = found("chromium", "chromium") else { return };
    let lab = Lab::new();
    let (ui, url) = serving(&lab, &["ui", "--no-browser"]);
    let Some(mut chromium) = browser(&lab) else { return };
    let wanted = std::env::var("HEADSTART_SCREENS").unwrap_or_default();
    let mut others = Vec::new();
    for (screen_name, screen) in SCREENS {
        for view in VIEWS {
            let name = format!("{}-{screen_name}.png", view.0);
            if wanted.contains('/') {
                for dark in [screen.dark, !screen.dark] {
                    let picture = taken(&mut chromium, &url, (Screen { dark, ..screen }, 1.0), view);
                    let name = format!("{}-{screen_name}{}.png", view.0, if dark { "-dark" } else { "" });
                    fs::write(Path::new(&wanted).join(name), decoded(&picture)).unwrap();
                }
                continue;
            }
            let picture = taken(&mut chromium, &url, (screen, SCALE), view);
            if wanted == "keep" {
                fs::write(kept(&name), decoded(&picture)).unwrap();
                continue;
            }
            let before = fs::read(kept(&name)).unwrap_or_else(|why| panic!("{name}: {why}"));
            let share = differ(&mut chromium, &picture, &encoded(&before));
            println!("{name}: {share:.2} % of what is drawn is another");
            if share > OTHERS {
                let to = std::env::temp_dir().join(format!("headstart-{name}"));
                fs::write(&to, decoded(&picture)).unwrap();
                others.push(format!("{name}: {share:.1} %, see {}", to.display()));
            }
        }
    }
    assert!(others.is_empty(), "views that look different: {others:#?}");
    drop(chromium);
    stop(ui);
});
