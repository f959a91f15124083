//! `cargo xtask screen`: records what `headstart demo` prints as `docs/demo.svg`, for the README.
//!
//! The picture is a recording, figures and all. A test of the demo compares its words with what the demo prints today.

use crate::Failure;
use crate::tree::workspace_root;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// Width of a character and height of a line, in units of the drawing.
const CELL: (f64, f64) = (7.8, 17.0);
/// Columns and margin.
const COLUMNS: usize = 80;
const MARGIN: f64 = 14.0;
/// Where the picture goes.
const PICTURE: &str = "docs/demo.svg";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (flags, program): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with('-'));
    crate::only_flags(&flags.iter().map(|flag| (*flag).clone()).collect::<Vec<_>>(), &["--release"])?;
    let failed = |what: &str, why: &dyn std::fmt::Display| Failure::Failed(format!("{what}: {why}"));
    let root = workspace_root()?;
    let out = std::env::temp_dir().join(format!("headstart-screen-{}", std::process::id()));
    let mut demo = match program[..] {
        [] => {
            let mut cargo = Command::new("cargo");
            cargo.arg("run").args(flags).args(["-q", "--"]);
            cargo
        }
        [program] => Command::new(std::path::absolute(program).map_err(|why| failed(program, &why))?),
        _ => return Err(Failure::Usage("one program at most".into())),
    };
    demo.args(["demo", "--out"]).arg(&out).current_dir(&root);
    let output =
        demo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|why| failed("cargo run", &why))?;
    let _ = std::fs::remove_dir_all(&out);
    if !output.status.success() {
        return Err(failed("headstart demo", &output.status));
    }
    // Where the report is differs from user to user.
    let said = String::from_utf8_lossy(&output.stdout).replace(&*out.to_string_lossy(), "headstart-results/demo");
    std::fs::write(root.join(PICTURE), svg(&said)).map_err(|why| failed(PICTURE, &why))?;
    println!("{PICTURE} written");
    Ok(())
}

/// Lines of a terminal as a picture, under the line that a person types.
fn svg(said: &str) -> String {
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let (width, height) = (CELL.0 * COLUMNS as f64 + 2.0 * MARGIN, CELL.1 * (lines.len() + 2) as f64 + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>What headstart demo prints</title>\n<style>\n\
         text {{ font: 13px ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; fill: #e6edf3; white-space: pre }}\n\
         .page {{ fill: #0d1117 }} .typed {{ fill: #58a6ff }}\n</style>\n\
         <rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\"/>\n"
    );
    let typed = std::iter::once(("typed", "$ headstart demo")).chain(std::iter::once(("said", "")));
    for (n, (class, line)) in typed.chain(lines.into_iter().map(|line| ("said", line))).enumerate() {
        let y = MARGIN + CELL.1 * (n as f64 + 0.75);
        let line: String = line.chars().take(COLUMNS).collect();
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let columns = line.chars().count() as f64;
        if columns > 0.0 {
            // Blocks line up whatever the font: the length of each line is given.
            let _ = writeln!(
                out,
                "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\">{text}</text>",
                columns * CELL.0
            );
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_and_marks_escaped() {
        let picture = svg("a < b & c\n\n  wget  ███ 15.1 s\n");
        for text in [">$ headstart demo<", ">a &lt; b &amp; c<", ">  wget  ███ 15.1 s<"] {
            assert!(picture.contains(text), "{picture}");
        }
        assert_eq!(picture.matches("<text").count(), 3);
        assert!(picture.ends_with("</svg>\n"));
    }
}
