//! Prints the picture of the README: `cargo run -p headstart-lab --example picture > docs/race.svg`. Virtual time: the same on every
//! machine; a test checks that the file is current.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", headstart_lab::report::picture::race()?);
    Ok(())
}
