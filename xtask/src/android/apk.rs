//! The package: resources by aapt, classes by javac and dx, engines as libraries, the same bytes each time; then aligned and signed.

use super::engine::Engine;
use super::{Places, below, failed, jar, report, step};
use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// Android's own resources, which the app's refer to.
pub const FRAMEWORK: &str = "/usr/share/android-framework-res/framework-res.apk";
/// The oldest Android that it is made for: 10, which tells a VPN's app whose a connection is.
const OLDEST: &str = "--min-sdk-version=29";
/// The password of a key that protects nothing.
const PASSWORD: &str = "throw-away";

/// Makes the package twice, compares, aligns and signs; the file.
pub fn make(places: &Places, engines: &[Engine]) -> Result<PathBuf, Failure> {
    let [one, other] = [unsigned(places, engines, "one")?, unsigned(places, engines, "other")?];
    let bytes = |file: &Path| fs::read(file).map_err(|e| failed(file, &e));
    if bytes(&one)? != bytes(&other)? {
        return Err(Failure::Failed(format!("{} and {} differ", one.display(), other.display())));
    }
    println!("xtask: the same bytes twice before signing");
    report::size(places, "package before signing, twice the same bytes", &one)?;
    let key = places.made.join("throw-away.p12");
    let text = |path: &Path| path.display().to_string();
    if !key.exists() {
        let words =
            ["-genkeypair", "-keystore", &text(&key), "-storepass", PASSWORD, "-alias", "throw-away", "-keyalg", "EC"];
        step("keytool", &[&words[..], &["-dname", "CN=throw-away", "-validity", "30"]].concat()).run()?;
    }
    let signed = places.made.join("headstart.apk");
    let password = format!("pass:{PASSWORD}");
    let words = ["sign", "--ks", &text(&key), "--ks-pass", &password, "--v1-signing-enabled", "false"];
    step("apksigner", &[&words[..], &["--out", &text(&signed), &text(&one)]].concat()).run()?;
    report::size(places, "package, signed", &signed)?;
    let verify = step("apksigner", &["verify", "--verbose", &text(&signed)]);
    report::run(places, "apksigner verify", &verify, |line| line.contains("scheme") || line.starts_with("Verifies"))?;
    report::run(places, "aapt dump badging", &step("aapt", &["dump", "badging", &text(&signed)]), |_| true)?;
    report::run(places, "aapt list", &step("aapt", &["list", &text(&signed)]), |_| true)?;
    Ok(signed)
}

/// Makes what tests of the app want: its classes and its resources, without engines.
pub fn make_for_tests(places: &Places) -> Result<(), Failure> {
    unsigned(places, &[], "one").map(drop)
}

/// Classes of the app, compiled into a folder of this name; with R.java.
fn classes(places: &Places, folder: &Path) -> Result<PathBuf, Failure> {
    let (generated, classes) = (folder.join("gen"), folder.join("classes"));
    for folder in [&generated, &classes] {
        fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    }
    let text = |path: &Path| path.display().to_string();
    let words = ["package", "-f", "-m", "-J", &text(&generated), "-M", "android/AndroidManifest.xml"];
    step("aapt", &[&words[..], &["-S", "android/res", "-I", FRAMEWORK]].concat()).run()?;
    let android = jar(places, "android-all-1")?;
    let mut words = vec!["--release", "8", "-Xlint:all,-options,-serial,-deprecation", "-Werror", "-encoding", "UTF-8"];
    let into = text(&classes);
    words.extend(["-d", &into, "-cp", &android]);
    let sources = [below(&generated, ".java"), below(&places.root.join("android/src"), ".java")].concat();
    words.extend(sources.iter().map(String::as_str));
    step("javac", &words).run()?;
    Ok(classes)
}

/// The package without a signature, made in a folder of this name from the beginning.
fn unsigned(places: &Places, engines: &[Engine], name: &str) -> Result<PathBuf, Failure> {
    let folder = places.made.join(name);
    let _ = fs::remove_dir_all(&folder);
    let classes = classes(places, &folder)?;
    let stage = folder.join("stage");
    fs::create_dir_all(&stage).map_err(|e| failed(&stage, &e))?;
    let text = |path: &Path| path.display().to_string();
    let mut entries = vec!["classes.dex".to_owned()];
    for engine in engines {
        let entry = format!("lib/{}/libheadstart.so", engine.abi);
        let into = stage.join(&entry);
        fs::create_dir_all(into.parent().unwrap_or(&stage)).map_err(|e| failed(&into, &e))?;
        fs::copy(&engine.program, &into).map_err(|e| failed(&engine.program, &e))?;
        entries.push(entry);
    }
    let (dx, dex) = (jar(places, "dalvik-dx")?, format!("--output={}", text(&stage.join("classes.dex"))));
    let words = ["-cp", &dx, "com.android.dx.command.Main", "--dex", OLDEST, &dex, &text(&classes)];
    step("java", &words).run()?;
    let raw = folder.join("raw.apk");
    let words = ["package", "-f", "-M", "android/AndroidManifest.xml", "-S", "android/res", "-I", FRAMEWORK];
    step("aapt", &[&words[..], &["-F", &text(&raw)]].concat()).run()?;
    let add = format!("cd '{}' && aapt add -v ../raw.apk {}", stage.display(), entries.join(" "));
    step("sh", &["-c", &add]).run()?;
    let mut bytes = fs::read(&raw).map_err(|e| failed(&raw, &e))?;
    forget_times(&mut bytes).ok_or_else(|| Failure::Failed(format!("{}: no ZIP archive", raw.display())))?;
    fs::write(&raw, bytes).map_err(|e| failed(&raw, &e))?;
    let aligned = folder.join("unsigned.apk");
    step("zipalign", &["-f", "-p", "4", &text(&raw), &text(&aligned)]).run()?;
    Ok(aligned)
}

/// Gives every entry of a ZIP archive the first time that the format knows: aapt writes when it was run.
fn forget_times(zip: &mut [u8]) -> Option<()> {
    /// 1980-01-01, 0:00.
    const EPOCH: [u8; 4] = [0, 0, 0x21, 0];
    let word = |zip: &[u8], at: usize| Some(usize::from(u16::from_le_bytes(*zip.get(at..)?.first_chunk()?)));
    let long = |zip: &[u8], at: usize| usize::try_from(u32::from_le_bytes(*zip.get(at..)?.first_chunk()?)).ok();
    let end = zip.windows(4).rposition(|four| four == b"PK\x05\x06")?;
    let (count, mut at) = (word(zip, end + 10)?, long(zip, end + 16)?);
    for _ in 0..count {
        let local = long(zip, at + 42)?;
        zip.get_mut(at + 12..at + 16)?.copy_from_slice(&EPOCH);
        zip.get_mut(local + 10..local + 14)?.copy_from_slice(&EPOCH);
        at += 46 + word(zip, at + 28)? + word(zip, at + 30)? + word(zip, at + 32)?;
    }
    Some(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn times_are_forgotten_in_both_places_and_what_is_no_archive_is_refused() {
        // One stored entry "a" with one byte, at 2026-11-25 03:04:06.
        let mut zip = Vec::from(*b"PK\x03\x04\x0a\0\0\0\0\0");
        zip.extend([0x83, 0x18, 0x79, 0x5d]);
        zip.extend([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, b'a', b'x']);
        let directory = zip.len() as u32;
        zip.extend(*b"PK\x01\x02\x0a\0\x0a\0\0\0\0\0");
        zip.extend([0x83, 0x18, 0x79, 0x5d]);
        zip.extend([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        zip.extend([0, 0, 0, 0, b'a']);
        let size = zip.len() as u32 - directory;
        zip.extend(*b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        zip.extend(size.to_le_bytes());
        zip.extend(directory.to_le_bytes());
        zip.extend([0, 0]);
        assert_eq!(forget_times(&mut zip), Some(()));
        assert!(!zip.windows(2).any(|two| two == [0x79, 0x5d]));
        assert_eq!(forget_times(&mut b"PK\x05\x06 and no more".to_vec()), None);
        assert_eq!(forget_times(&mut []), None);
    }
}
