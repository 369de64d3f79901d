//! Every interleaving of small cases, by loom: `RUSTFLAGS="--cfg loom" cargo test -p treepie-shm --release --lib`.
//!
//! A lost wake-up is a model that never ends, which loom reports; so is a writer that never learns of freed space. Some
//! models leave out one step and must fail: they show that the others can detect its absence.

mod barrier;
mod keys;
mod records;
mod segment;

use crate::doorbell::Doorbell;
use crate::primitive::{Ordering, fence};

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn full_fence() {
    fence(Ordering::SeqCst);
}

fn leaked_doorbell() -> &'static Doorbell {
    Box::leak(Box::new(Doorbell::new()))
}
