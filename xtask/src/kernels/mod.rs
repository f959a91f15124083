//! `cargo xtask kernels`: whether the kernels that `headstart doctor` promises take the programs of `crates/io/bpf`, and whether these do
//! there what their tests say: Debian's kernels in QEMU, with a test program of `crates/io` as all that runs.
//!
//! What is needed is downloaded and unpacked below target/kernels; nothing is installed. QEMU emulates the processor (TCG): a virtual
//! machine in which this may run itself need not have a KVM that works. That takes some minutes a kernel.

use crate::Failure;
use crate::step::Step;
use crate::tree::workspace_root;

/// Packages that depend on the newest kernel of their kind: Debian 12's own, and the newer one that it offers.
const KERNELS: [&str; 2] = ["linux-image-amd64", "linux-image-6.12-amd64"];
/// Where all of it is.
const FOLDER: &str = "target/kernels";
/// The longest that a kernel may take, in seconds.
const PATIENCE: &str = "3000";

/// How it went under a kernel.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Its release, as it says itself; none if it did not start.
    kernel: Option<String>,
    /// How many tests passed, failed, and had nothing to test there.
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Whether the test program ended well.
    whole: bool,
}

impl Verdict {
    /// What is on the console of a machine.
    fn read(lines: &[String]) -> Self {
        let after =
            |name: &str| lines.iter().find_map(|line| line.trim().split_once(name).map(|(_, rest)| rest.to_owned()));
        let count =
            |end: &str| lines.iter().filter(|line| line.starts_with("test ") && line.trim_end().ends_with(end)).count();
        Self {
            kernel: after("kernel: "),
            passed: count("... ok"),
            failed: count("... FAILED"),
            skipped: lines.iter().filter(|line| line.starts_with("skipped: ")).count(),
            whole: after("verdict: ").is_some_and(|code| code == "0"),
        }
    }

    /// Nothing failed, nothing was left out, and there was something.
    fn is_good(&self) -> bool {
        self.whole && self.failed == 0 && self.skipped == 0 && self.passed > 0
    }

    fn line(&self) -> String {
        let Self { kernel, passed, failed, skipped, whole } = self;
        let kernel = kernel.as_deref().unwrap_or("a kernel that did not start");
        let end = if *whole { "" } else { "; it did not end well" };
        format!("{kernel}: {passed} passed, {failed} failed, {skipped} skipped{end}")
    }
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let folder = workspace_root()?.join(FOLDER);
    let tests = tests()?;
    let script = workspace_root()?.join("xtask/src/kernels/prepare.sh");
    let [script, folder] = [script, folder].map(|path| path.to_string_lossy().into_owned());
    let prepare = Step::command("sh", &[&[script.as_str(), folder.as_str(), tests.as_str()][..], &KERNELS].concat());
    let said = prepare.capture()?;
    let kernels: Vec<_> = said.output.iter().filter_map(|line| line.strip_prefix("kernel ")).collect();
    if !said.success || kernels.len() != KERNELS.len() {
        return Err(Failure::Failed("the kernels could not be prepared; apt-get must know linux-image-6.12-amd64 (bookworm-backports or -updates)".into()));
    }
    let mut verdicts = Vec::new();
    for kernel in kernels {
        verdicts.push(Verdict::read(&machine(&folder, kernel).capture()?.output));
    }
    verdicts.iter().for_each(|verdict| println!("kernels: {}", verdict.line()));
    if verdicts.iter().all(Verdict::is_good) {
        return Ok(());
    }
    Err(Failure::Failed("not every kernel takes the programs, or they do not do there what they should".into()))
}

/// The test program of `crates/io`.
fn tests() -> Result<String, Failure> {
    let build = Step::cargo(&["test", "-p", "headstart-io", "--lib", "--no-run", "--message-format=json"]);
    let built = build.capture_showing(|_| false)?;
    let executable = |line: &String| line.split_once("\"executable\":\"")?.1.split('"').next().map(str::to_owned);
    let last = built.output.iter().filter_map(executable).next_back().filter(|_| built.success);
    last.ok_or_else(|| Failure::Failed("the tests of headstart-io could not be built".into()))
}

/// A machine with a kernel, without a network.
fn machine(folder: &str, kernel: &str) -> Step {
    let root = format!("{folder}/root");
    let libraries = format!("{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu");
    let line = format!(
        "timeout {PATIENCE} {root}/usr/bin/qemu-system-x86_64 -L {root}/usr/share/qemu -L {root}/usr/share/seabios \
         -accel tcg,thread=multi -cpu max -m 1024 -smp 2 -nographic -no-reboot -nic none -kernel {folder}/{kernel} \
         -initrd {folder}/image.gz -append"
    );
    let words: Vec<_> = line.split(' ').chain(["console=ttyS0 quiet panic=-1"]).collect();
    Step::command(words[0], &words[1..]).with("LD_LIBRARY_PATH", libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_good_only_if_all_passed_and_nothing_was_left_out() {
        let read = |text: &str| Verdict::read(&text.lines().map(str::to_owned).collect::<Vec<_>>());
        let good = read("\u{1b}[2Jkernel: 6.1.0-1-amd64\ntest a ... ok\ntest b ... ok\nverdict: 0\n");
        assert!(good.is_good() && good.line() == "6.1.0-1-amd64: 2 passed, 0 failed, 0 skipped", "{good:?}");
        for bad in [
            "",
            "kernel: 6.1\nverdict: 0",
            "kernel: 6.1\ntest a ... ok\nverdict: 101",
            "kernel: 6.1\ntest a ... ok\ntest b ... FAILED\nverdict: 0",
            "kernel: 6.1\nskipped: no rights\ntest a ... ok\nverdict: 0",
            "kernel: 6.1\ntest a ... ok",
        ] {
            assert!(!read(bad).is_good(), "{bad}");
        }
        assert!(read("").line().contains("did not start"));
    }
}
