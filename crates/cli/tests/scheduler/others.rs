//! GNU parallel and Snakemake, each as its users start it.

use super::scene::{Campaign, LAB, found, python_with, wait_for};

#[test]
fn gnu_parallel_is_killed_in_the_middle_and_goes_on() {
    if !found("parallel", "parallel") {
        return;
    }
    let campaign = Campaign::new();
    campaign.submission("parallel", campaign.tasks);
    let mut first = campaign.command("sh", &["campaign.sh"]).spawn().unwrap();
    wait_for("a task", || campaign.done() > 0);
    first.kill().unwrap();
    first.wait().unwrap();
    println!("parallel was killed, {} tasks were done", campaign.done());
    let words = ["submit", "--engine", "parallel", "plan.jsonl", "--out", "results", "--go"];
    let without = campaign.command(LAB, &words).env("PATH", campaign.path("nowhere")).output().unwrap();
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(without.status.code() == Some(127) && said.contains("`sh` is not installed here"), "{without:?}");
    let second = campaign.lab(&words);
    assert!(second.status.success(), "{second:?}");
    campaign.is_whole_and_the_same();
    let third = campaign.lab(&words);
    assert!(third.status.success() && String::from_utf8_lossy(&third.stderr).contains("tasks are done"), "{third:?}");
}

#[test]
fn snakemake_works_and_collects() {
    let Some(python) = python_with("snakemake") else { return };
    let campaign = Campaign::new();
    campaign.submission("snakemake", 6);
    let mut command = campaign.command(&python, &["-m", "snakemake", "--cores", "2", "--snakefile", "Snakefile"]);
    let output = command.env("HOME", campaign.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(campaign.path("results-collected/account.json").is_file());
    campaign.is_whole_and_the_same();
}
