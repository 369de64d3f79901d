//! Interleaving on one rank: enough items, and short ones, that messages are handled between them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use treepie_am::{ActiveMessages, Builder, Port};
use treepie_base::Error;
use treepie_comm::Comm;
use treepie_fabric::Singleton;

const WORDS: usize = 1000;
const ITEMS: u64 = 100_000;

fn singleton() -> Comm {
    Comm::world(Box::new(Singleton::new()))
}

/// A handler that adds to words.
fn build_adder(world: &Comm) -> (Builder<Vec<u64>>, Port<[u32; 3]>) {
    let mut build = ActiveMessages::<Vec<u64>>::builder(world);
    let add = build.port::<[u32; 3]>("add");
    build.on_prefetch(
        add,
        |words: &Vec<u64>, [at, ..]| &words[*at as usize],
        |words, _, [at, by, _]| words[at as usize] += u64::from(by),
    );
    (build, add)
}

fn message(item: u64) -> [u32; 3] {
    [(item * item % WORDS as u64) as u32, item as u32, 0]
}

/// Runs all items, `at_once` messages per item, and checks the sums.
fn check_sums(am: &mut ActiveMessages<Vec<u64>>, add: Port<[u32; 3]>, at_once: u64) {
    let (mut words, before) = (vec![0; WORDS], am.statistics()[0].handled);
    let items = 0..ITEMS / at_once;
    let body = |item: u64| (item * at_once..(item + 1) * at_once).map(message);
    am.epoch_for(&mut words, items.clone(), |cx, _, item| body(item).for_each(|message| cx.send(add, 0, message)))
        .unwrap();
    let mut expected = vec![0; WORDS];
    items.flat_map(body).for_each(|[at, by, _]| expected[at as usize] += u64::from(by));
    assert_eq!(words, expected);
    assert_eq!(am.statistics()[0].handled - before, ITEMS / at_once * at_once);
}

#[test]
fn every_message_is_handled_once() {
    for config in ["", "coalescing=1", "coalescing=3", "coalescing=50", "coalescing=5000"] {
        let (mut build, add) = build_adder(&singleton());
        build.configure_all(config.parse().unwrap());
        let mut am = build.start().unwrap();
        for at_once in [1, 7, 1000] {
            check_sums(&mut am, add, at_once);
        }
        assert!(!am.statistics()[0].handler_time.is_zero(), "{config}");
        // At most a dozen buffers are queued. With very short buffers an item fills many, so more are queued.
        let is_short = ["1", "3", "50"].iter().any(|few| config.ends_with(&format!("={few}")));
        let queued = am.memory_statistics().peak_queued_bytes;
        assert!(is_short || queued < 14 * 60_000, "{config}: {queued} bytes queued");
    }
}

/// Queued local messages are handled before the body continues.
#[test]
fn a_body_with_a_low_memory_limit_is_throttled() {
    let (mut build, add) = build_adder(&singleton());
    build.memory_limit(1000);
    let mut am = build.start().unwrap();
    check_sums(&mut am, add, 1);
    assert!(am.memory_statistics().throttled > 0);
}

#[test]
fn a_send_to_a_missing_rank_fails_its_epoch_only() {
    let (build, add) = build_adder(&singleton());
    let mut am = build.start().unwrap();
    let missing = Error::BadRank { rank: 5, size: 1 };
    for items in [1, ITEMS] {
        let mut words = vec![0; WORDS];
        let result = am.epoch_for(&mut words, 0..items, |cx, _, item| {
            let to = if item + 1 == items { 5 } else { 0 };
            cx.send(add, to, message(item));
        });
        assert_eq!(result, Err(missing.clone()), "{items} items");
        assert_eq!(am.epoch(&mut words, |_| Ok(())), Ok(0));
        check_sums(&mut am, add, 1);
    }
}

#[test]
fn a_panic_does_not_affect_the_next_epoch() {
    let (build, add) = build_adder(&singleton());
    let mut am = build.start().unwrap();
    let mut words = vec![0; WORDS];
    let outside = [WORDS as u32, 0, 0];
    let failed = catch_unwind(AssertUnwindSafe(|| {
        am.epoch_for(&mut words, 0..ITEMS, |cx, _, item| {
            cx.send(add, 0, if item == ITEMS / 2 { outside } else { message(item) });
        })
    }));
    assert!(failed.is_err());
    check_sums(&mut am, add, 1);
}
