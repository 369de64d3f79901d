//! Messages that are handled between items of the body, on one rank: enough items, and quick ones, for that to happen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use treepie_am::{ActiveMessages, Builder, Port};
use treepie_base::Error;
use treepie_comm::Comm;
use treepie_fabric::Alone;

const WORDS: usize = 1000;
const ITEMS: u64 = 100_000;

fn alone() -> Comm {
    Comm::world(Box::new(Alone::new()))
}

/// Words that are added to.
fn adding(world: &Comm) -> (Builder<Vec<u64>>, Port<[u32; 3]>) {
    let mut build = ActiveMessages::<Vec<u64>>::builder(world);
    let add = build.port::<[u32; 3]>("add");
    build.on_touch(
        add,
        |words: &Vec<u64>, [at, ..]| &words[*at as usize],
        |words, _, [at, by, _]| words[at as usize] += u64::from(by),
    );
    (build, add)
}

fn message(item: u64) -> [u32; 3] {
    [(item * item % WORDS as u64) as u32, item as u32, 0]
}

/// All items, and what comes of them.
fn adds_up(am: &mut ActiveMessages<Vec<u64>>, add: Port<[u32; 3]>, at_once: u64) {
    let (mut words, before) = (vec![0; WORDS], am.statistics()[0].handled);
    let items = 0..ITEMS / at_once;
    let body = |item: u64| (item * at_once..(item + 1) * at_once).map(message);
    am.epoch_for(&mut words, items.clone(), |cx, _, item| body(item).for_each(|message| cx.send(add, 0, message)))
        .unwrap();
    let mut right = vec![0; WORDS];
    items.flat_map(body).for_each(|[at, by, _]| right[at as usize] += u64::from(by));
    assert_eq!(words, right);
    assert_eq!(am.statistics()[0].handled - before, ITEMS / at_once * at_once);
}

#[test]
fn every_message_is_handled_once() {
    for config in ["", "coalescing=1", "coalescing=3", "coalescing=50", "coalescing=5000"] {
        let (mut build, add) = adding(&alone());
        build.configure_all(config.parse().unwrap());
        let mut am = build.start().unwrap();
        for at_once in [1, 7, 1000] {
            adds_up(&mut am, add, at_once);
        }
        assert!(!am.statistics()[0].handler_time.is_zero(), "{config}");
        // A dozen buffers, and not what has been handled. Of very short ones more wait, as items fill many of them.
        let is_short = ["1", "3", "50"].iter().any(|few| config.ends_with(&format!("={few}")));
        let waited = am.memory().deferred;
        assert!(is_short || waited < 14 * 60_000, "{config}: {waited} bytes waited");
    }
}

/// What waits is handled before the body goes on, not waited for.
#[test]
fn a_body_that_may_leave_little_is_slowed_down() {
    let (mut build, add) = adding(&alone());
    build.memory(1000);
    let mut am = build.start().unwrap();
    adds_up(&mut am, add, 1);
    assert!(am.memory().slowed > 0);
}

#[test]
fn a_send_to_nobody_is_an_error_of_its_own_epoch() {
    let (build, add) = adding(&alone());
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
        adds_up(&mut am, add, 1);
    }
}

#[test]
fn a_panic_does_not_come_to_the_next_epoch() {
    let (build, add) = adding(&alone());
    let mut am = build.start().unwrap();
    let mut words = vec![0; WORDS];
    let outside = [WORDS as u32, 0, 0];
    let failed = catch_unwind(AssertUnwindSafe(|| {
        am.epoch_for(&mut words, 0..ITEMS, |cx, _, item| {
            cx.send(add, 0, if item == ITEMS / 2 { outside } else { message(item) });
        })
    }));
    assert!(failed.is_err());
    adds_up(&mut am, add, 1);
}
