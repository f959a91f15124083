//! A campaign on real schedulers, in namespaces: Slurm with two nodes of which one is killed and one drained, GNU parallel here and over SSH,
//! Snakemake, Ray, hosts lost in the middle, a bucket of a real store; the questions of the guide, asked by DuckDB; the Python package. What is
//! not installed is skipped with a line.
//!
//! `cargo xtask campaigns` runs it in full; `HEADSTART_CAMPAIGN_SEEDS` says how many seeds each of two conditions has.

mod bucket;
mod fleet;
mod golang;
mod kubernetes;
mod nodes;
mod others;
mod python;
mod questions;
mod ray;
mod scene;
#[path = "../verbs/schema.rs"]
mod schema;
mod slurm;
mod ssh;
