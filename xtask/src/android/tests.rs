//! The tests of the app on the build machine: JUnit with Robolectric, and the service's session against the real engine, behind an emulated link.

use super::engine::Engine;
use super::{Places, below, failed, jar, report, step};
use crate::Failure;
use crate::step::Step;
use std::fs;
use std::path::Path;

/// The classes whose tests want the lab around them, each its own.
const IN_THE_LAB: [&str; 2] = ["org.headstart.phone.RealEngineTest", "org.headstart.phone.RealServiceTest"];
/// The jar that Robolectric runs as Android, in a folder of its own where it looks for it.
const ANDROID: &str = "android-all-instrumented";
const OFFLINE: &str = "android";

/// Compiles the tests, and runs those that need no engine.
pub fn unit(places: &Places) -> Result<(), Failure> {
    let named = compile(places)?;
    let words: Vec<&str> = named.iter().map(String::as_str).filter(|name| !IN_THE_LAB.contains(name)).collect();
    Java { places, engine: None }.run(&[], &words)
}

/// Runs the tests that need an engine, a network and namespaces: the virtual machine is a program of the lab's client.
pub fn in_the_lab(places: &Places, engine: &Engine) -> Result<(), Failure> {
    println!("xtask: the session with the engine for {}", engine.abi);
    Step::cargo(&["build", "-p", "headstart", "--bins"]).run()?;
    let lab = places.root.join("target/debug/headstart-lab").display().to_string();
    let before = [&lab, "lab", "shell", "--link", "rate=100mbit,delay=5ms", "--"];
    IN_THE_LAB.iter().try_for_each(|class| Java { places, engine: Some(engine) }.run(&before, &[class]))
}

/// The jars that the app and its tests are run with.
fn path(places: &Places) -> String {
    let own =
        [places.made.join("one/classes"), places.made.join("tests/classes")].map(|path| path.display().to_string());
    let is_wanted = |jar: &String| !jar.contains(ANDROID) && !jar.contains("dalvik-dx");
    let all = below(&places.made.join("jars"), ".jar").into_iter().filter(is_wanted);
    own.into_iter().chain(all).collect::<Vec<_>>().join(":")
}

/// Compiles all tests; the classes that have some.
fn compile(places: &Places) -> Result<Vec<String>, Failure> {
    let folder = places.made.join("tests");
    let classes = folder.join("classes");
    fs::create_dir_all(&classes).map_err(|e| failed(&classes, &e))?;
    let jars = places.made.join("jars");
    unpack(&jars)?;
    let android = jar(places, ANDROID)?;
    let path = path(places);
    let sources = below(&places.root.join("android/test"), ".java");
    let into = classes.display().to_string();
    let mut words = vec!["-encoding", "UTF-8", "-Xlint:-options", "-d", &into, "-cp", &path];
    words.extend(sources.iter().map(String::as_str));
    step("javac", &words).run()?;
    tell_robolectric(places, &classes)?;
    let offline = folder.join(OFFLINE);
    fs::create_dir_all(&offline).map_err(|e| failed(&offline, &e))?;
    let copy = offline.join(Path::new(&android).file_name().unwrap_or_default());
    if !copy.exists() {
        fs::copy(&android, &copy).map_err(|e| failed(&copy, &e))?;
    }
    let named = sources.iter().filter_map(|file| Path::new(file).file_stem()?.to_str()?.strip_suffix("Test"));
    Ok(named.map(|name| format!("org.headstart.phone.{name}Test")).collect())
}

/// A virtual machine with all that tests want.
struct Java<'a> {
    places: &'a Places,
    engine: Option<&'a Engine>,
}

impl Java<'_> {
    fn run(&self, before: &[&str], tests: &[&str]) -> Result<(), Failure> {
        let says = |name: &str, path: &Path| format!("-D{name}={}", path.display());
        let engine = self.engine.map(|engine| format!("{}{}", engine.runner, engine.program.display()));
        let settings = [
            says("headstart.engine", Path::new(&engine.unwrap_or_default())),
            says("headstart.schema", &self.places.root.join("docs/reference/schemas/engine.json")),
            says("headstart.made", &self.places.made),
            "-Drobolectric.offline=true".to_owned(),
            says("robolectric.dependency.dir", &self.places.made.join("tests").join(OFFLINE)),
            "-Drobolectric.enabledSdks=35".to_owned(),
        ];
        let mut words = [before, &["java", "-XX:+UseSerialGC", "--add-opens=java.base/java.io=ALL-UNNAMED"]].concat();
        words.extend(settings.iter().map(String::as_str));
        let path = path(self.places);
        words.extend(["-cp", &path, "org.junit.runner.JUnitCore"]);
        words.extend(tests);
        let how = self.engine.map_or("without an engine".to_owned(), |engine| {
            format!("with the engine for {}{}", engine.abi, if engine.runner.is_empty() { "" } else { " under qemu" })
        });
        let names: Vec<_> = tests.iter().map(|name| name.rsplit('.').next().unwrap_or(name)).collect();
        let title = format!("{}, {how}", names.join(", "));
        report::run(self.places, &title, &step(words[0], &words[1..]), report::is_result)
    }
}

/// Robolectric's own dependencies come as archives for Android, of which the classes are wanted.
fn unpack(jars: &Path) -> Result<(), Failure> {
    for archive in below(jars, ".aar") {
        let jar = format!("{}.jar", archive.trim_end_matches(".aar"));
        if !Path::new(&jar).exists() {
            let line = format!("cd '{}' && jar xf '{archive}' classes.jar && mv classes.jar '{jar}'", jars.display());
            step("sh", &["-c", &line]).run()?;
        }
    }
    Ok(())
}

/// Where the app's manifest and resources are, as Android's own build would say.
fn tell_robolectric(places: &Places, classes: &Path) -> Result<(), Failure> {
    let folder = classes.join("com/android/tools");
    fs::create_dir_all(&folder).map_err(|e| failed(&folder, &e))?;
    let file = folder.join("test_config.properties");
    let text = format!(
        "android_merged_manifest={}\nandroid_resource_apk={}\nandroid_custom_package=org.headstart.phone\n",
        places.root.join("android/AndroidManifest.xml").display(),
        places.made.join("one/unsigned.apk").display(),
    );
    fs::write(&file, text).map_err(|e| failed(&file, &e))
}
