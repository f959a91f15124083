//! A thread for each processor that computes, as a build beside the programs would, until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The threads.
#[derive(Debug)]
pub struct Busy {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Busy {
    /// Begins them: they are of this process, and weigh as much as any other thread.
    pub fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let compute = |_| {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut rng = fastrand::Rng::with_seed(1);
                let mut sum = 0u64;
                while !over.load(Ordering::Relaxed) {
                    sum = (0..1000).fold(sum, |sum, _| sum.wrapping_add(rng.u64(..)));
                }
                std::hint::black_box(sum)
            })
        };
        let threads = (0..processors).map(compute).collect();
        Self { over, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
