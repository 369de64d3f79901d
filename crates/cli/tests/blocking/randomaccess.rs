//! RandomAccess: preparation, updates by each kind of algorithm, and verification.

use treepie::randomaccess::{RandomAccess, Run};

use crate::table::{Call, Outcome, Trial};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["RandomAccess::run", "RandomAccess::prepare"], |t| t.fails(|| settings("auto").run(t.world))).sample(),
    Call::new(&["Run::update"], |t| updates(t, "alltoall_1d")),
    Call::new(&["Run::update, by halving"], |t| updates(t, "hypercube_any")),
    Call::new(&["Run::update, by buckets"], |t| updates(t, "buffered_async")),
    Call::new(&["Run::update, by active messages"], |t| updates(t, "am")),
    Call::new(&["Run::verify"], |t| {
        let mut run = settings("auto").prepare(t.world)?;
        let result = run.update()?;
        t.fails(|| run.verify(result.clone()))
    }),
    Call::new(&["Run::changed_words"], |t| {
        let run = prepared(t, "auto")?;
        t.fails(|| run.changed_words())
    }),
];

fn settings(algorithm: &str) -> RandomAccess {
    RandomAccess::new(1 << 10).algorithm(algorithm.parse().expect("an id"))
}

fn prepared(t: &Trial<'_>, algorithm: &str) -> Outcome<Run> {
    let mut run = settings(algorithm).prepare(t.world)?;
    run.update()?;
    Ok(run)
}

fn updates(t: &Trial<'_>, algorithm: &str) -> Outcome {
    let mut run = prepared(t, algorithm)?;
    t.fails(|| run.update())
}
