//! Against a store that misbehaves as it is asked to.

use super::super::account::collect;
use super::super::folder::tests::{done, outcome, task};
use super::super::{Glance, Look, Plan, Results};
use super::*;
use crate::bucket::fake::{Fault, Store};

/// What is there, of which nothing but the list is read.
fn open(store: &Store, retries: usize) -> anyhow::Result<Remote> {
    Remote::new(store.open(retries))
}

/// What is there, all of it read.
fn all(store: &Store) -> Results {
    let remote = open(store, 3).unwrap();
    remote.bring(Extent::Whole, |_| true).unwrap();
    Results::of(remote)
}

fn key(seed: u64) -> String {
    format!("some/results/{}", task(seed).id)
}

#[test]
fn a_result_in_a_bucket_is_one_object_and_is_what_it_was() {
    let store = Store::new();
    assert_eq!(done(&all(&store), 1, "a"), Committed::First);
    assert_eq!(store.keys(), [key(1)]);
    let results = all(&store);
    let Look::Done(found) = results.look(&task(1).id) else { panic!("not done") };
    assert_eq!((found.0.host.as_str(), &found.1, results.ids().unwrap()), ("a", &outcome(1), vec![task(1).id]));
    assert!(results.has(&task(1)) && !results.has(&task(2)));
    assert_eq!(results.place(), Path::new("s3://bucket/some/results"));
    // By its record alone.
    let bucket = open(&store, 0).unwrap();
    bucket.bring(Extent::Records, |_| true).unwrap();
    let results = Results::of(bucket);
    assert_eq!(
        (results.glance(&task(1).id), results.glance(&task(2).id)),
        (Glance::Done { valid: true }, Glance::Missing)
    );
    let copies = results.bucket_copies();
    drop((results, store));
    assert!(!copies.exists(), "copies are gone with their worker");
}

#[test]
fn of_two_workers_the_first_wins_and_the_other_takes_its_result() {
    let store = Store::new();
    let (a, b) = (all(&store), all(&store));
    assert_eq!((done(&a, 1, "a"), done(&b, 1, "b")), (Committed::First, Committed::Another));
    for results in [a, b, all(&store)] {
        assert_eq!(results.record(&task(1).id).unwrap().host, "a");
        assert!(!results.is_begun(&task(1).id));
    }
    assert_eq!(store.keys().len(), 1);
}

#[test]
fn a_store_that_is_busy_is_asked_again_and_one_that_stays_so_loses_nothing_that_is_there() {
    let store = Store::new();
    let results = all(&store);
    store.will("PUT", Fault::Busy, 2);
    assert_eq!(done(&results, 1, "a"), Committed::First);
    store.will("LIST", Fault::Busy, 3);
    store.will("GET", Fault::Busy, 2);
    assert!(matches!(all(&store).look(&task(1).id), Look::Done(_)));
    assert_eq!(store.inside().happened, 7);

    store.will("PUT", Fault::Busy, 4);
    let part = results.begin(&task(2), "a").unwrap();
    let why = format!("{:#}", results.commit(part, &outcome(2), "a", 1).unwrap_err());
    assert!(why.contains("writing s3://bucket/some/results/") && why.contains("503"), "{why}");
    assert!(!results.has(&task(2)) && !results.is_begun(&task(2).id), "it is done by the next");
    assert_eq!((done(&results, 2, "a"), store.keys().len()), (Committed::First, 2));

    store.will("LIST", Fault::Busy, 4);
    let why = format!("{:#}", open(&store, 3).unwrap_err());
    assert!(why.contains("reading s3://bucket/some/results") && why.contains("503"), "{why}");
    let bucket = open(&store, 3).unwrap();
    store.will("GET", Fault::Busy, 4);
    let why = format!("{:#}", bucket.bring(Extent::Whole, |id| id == task(1).id).unwrap_err());
    assert!(why.contains(&task(1).id) && why.contains("503"), "an account without it would be wrong: {why}");
}

#[test]
fn a_result_that_came_though_its_answer_was_cut_counts_once_and_as_this_workers() {
    let store = Store::new();
    let results = all(&store);
    store.will("PUT", Fault::Cut, 1);
    assert_eq!(done(&results, 1, "a"), Committed::First);
    assert_eq!(store.keys(), [key(1)]);
    store.will("GET", Fault::Cut, 2);
    let results = all(&store);
    assert!(matches!(results.look(&task(1).id), Look::Done(_)), "it was asked for again");
    assert_eq!(store.inside().happened, 3);
}

#[test]
fn what_a_bucket_has_lost_or_damaged_is_named_and_never_counted() {
    let store = Store::new();
    (1..=5).for_each(|seed| assert_eq!(done(&all(&store), seed, "a"), Committed::First));
    let cut = |seed: u64, keep: fn(&[u8]) -> usize| {
        let objects = &mut store.inside().objects;
        let object = objects.get_mut(&key(seed)).unwrap();
        object.truncate(keep(object));
    };
    cut(2, |object| object.len() - 1);
    cut(3, |_| 100);
    cut(4, |_| 0);
    let bucket = open(&store, 0).unwrap();
    store.will("GET", Fault::Lost, 1);
    bucket.bring(Extent::Whole, |id| id == task(1).id).unwrap();
    bucket.bring(Extent::Whole, |id| id != task(1).id).unwrap();
    let results = Results::of(bucket);
    let plan = Plan { tasks: (1..=6).map(task).collect() };
    let mut counted = Vec::new();
    let account = collect(&plan, &[results], |one| {
        counted.push(one.outcome.seed);
        Ok(())
    });
    let account = account.unwrap();
    assert_eq!((counted, account.missing.len(), account.missing[0].id.clone()), (vec![5], 1, task(6).id));
    let why: Vec<(String, &str)> = account.damaged.iter().map(|place| (place.id.clone(), place.why.as_str())).collect();
    assert_eq!(why.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), [1, 2, 3, 4].map(|seed| task(seed).id));
    assert_eq!([why[0].1, why[2].1], ["it was listed and is not there", "its record has no end"]);
    assert!(why[1].1.contains("SHA-256 differs"), "{why:?}");
    assert_eq!(account.damaged[0].folders, [PathBuf::from("s3://bucket/some/results")]);
    // By records alone: all but the one whose length is right.
    let bucket = open(&store, 0).unwrap();
    bucket.bring(Extent::Records, |_| true).unwrap();
    let results = Results::of(bucket);
    assert_eq!(results.glance(&task(1).id), Glance::Done { valid: true });
    for seed in [2, 3, 4] {
        assert!(matches!(results.glance(&task(seed).id), Glance::Damaged(_)), "{seed}");
    }
}

#[test]
fn a_damaged_result_is_put_aside_and_done_again() {
    let store = Store::new();
    assert_eq!(done(&all(&store), 1, "a"), Committed::First);
    store.inside().objects.insert(key(1), b"x".to_vec());
    let results = all(&store);
    assert!(matches!(results.look(&task(1).id), Look::Damaged(_)));
    let aside = results.set_aside(&task(1).id, "b-1").unwrap();
    assert_eq!(aside, PathBuf::from(format!("s3://bucket/some/results/.damaged/{}-b-1", task(1).id)));
    assert!(matches!(results.look(&task(1).id), Look::Missing));
    assert_eq!(done(&results, 1, "b"), Committed::First);
    assert_eq!(store.inside().objects[&format!("some/results/.damaged/{}-b-1", task(1).id)], b"x");
    assert_eq!(all(&store).record(&task(1).id).unwrap().host, "b");
}

#[test]
fn a_failure_is_noted_for_other_hosts_until_the_task_is_done() {
    let store = Store::new();
    let results = all(&store);
    results.fail(results.begin(&task(1), "a").unwrap(), "no Chromium").unwrap();
    let other = all(&store);
    assert_eq!((other.failure(&task(1).id).as_deref(), other.failure(&task(2).id)), (Some("no Chromium"), None));
    assert_eq!(done(&other, 1, "b"), Committed::First);
    assert_eq!((store.keys(), other.failure(&task(1).id)), (vec![key(1)], None));
}

#[test]
fn a_page_of_something_else_is_no_result() {
    let store = Store::new();
    done(&all(&store), 1, "a");
    let remote = open(&store, 0).unwrap();
    store.will("GET", Fault::Garbage, 1);
    remote.bring(Extent::Whole, |_| true).unwrap();
    assert!(matches!(Results::of(remote).look(&task(1).id), Look::Damaged(why) if why == "its record has no end"));
}
