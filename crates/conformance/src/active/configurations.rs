//! Every routing, coalescing, reduction and style, with handlers of every kind.
//!
//! There are 200 configurations. Each run tests a part; the worlds of 1 to 17 threads together cover all of them. Other
//! engines start at an offset, so that each configuration runs with small and large worlds. Long runs test all.

use treepie::am::{ActiveMessages, Context, Detector, Port, TypeStatistics};
use treepie::{Comm, Rank, Sum};

use super::{Tally, is_long_run, random, routings};
use crate::check::{Failure, Outcome, check, check_eq};

const COALESCING: [&str; 5] = ["adaptive", "1", "7", "512", "4096b"];
const REDUCTIONS: [&str; 4] = ["off", "16", "1024", "adaptive"];
const STYLES: [&str; 2] = ["am", "bsp"];
const DETECTORS: [Detector; 3] = [Detector::Auto, Detector::FourCounter, Detector::Consensus];

/// Runs among which the configurations are divided.
const TURNS: usize = 17;

/// Items of all ranks together for each configuration. With those that handlers send there are over 100,000 messages.
const ITEMS: usize = 65_000;

/// Keys of messages that are combined; each has an owner.
const KEYS: usize = 128;
/// Keys of messages of which duplicates are dropped, on each rank.
const UNIQUE: usize = 64;

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Item {
    key: u32,
    value: u32,
    /// How many more times handlers send it on.
    hops_left: u32,
    /// The rank that sent it last.
    from: u32,
}

/// Handlers of one message, of one message with a prefetch address, of a batch, and of one message with its source.
const HANDLER_FORMS: usize = 4;
const TYPE_NAMES: [&str; 6] = ["one", "touch", "batch", "from", "summed", "unique"];

#[derive(Clone, Debug, PartialEq)]
struct HandlerState {
    rank: Rank,
    got: [Tally; HANDLER_FORMS],
    sums: Vec<u64>,
    seen: Vec<u64>,
    wrong: Option<String>,
}

impl HandlerState {
    fn new(rank: Rank) -> Self {
        Self { rank, got: Default::default(), sums: vec![0; KEYS], seen: vec![0; UNIQUE], wrong: None }
    }

    fn handle(&mut self, cx: &mut Context<HandlerState>, form: usize, port: Port<Item>, item: Item) {
        self.got[form].add(u64::from(item.value));
        cx.add_to_sum(u64::from(item.value));
        if let Some((to, next)) = item.next(cx.rank(), cx.ranks()) {
            cx.send(port, to, next);
        }
    }
}

impl Item {
    /// The next destination and the item as it is sent there, if any hops are left.
    fn next(self, rank: Rank, ranks: usize) -> Option<(Rank, Item)> {
        let left = self.hops_left.checked_sub(1)?;
        let to = (self.key as usize * 31 + self.hops_left as usize * 7 + self.value as usize) % ranks;
        Some((to, Item { hops_left: left, from: rank as u32, ..self }))
    }
}

/// This rank's contribution to what all ranks must receive, concatenated by rank; an allreduce completes it.
struct Expected {
    words: Vec<u64>,
    messages: [u64; TYPE_NAMES.len()],
    sum: u64,
}

const WORDS: usize = 2 * HANDLER_FORMS + UNIQUE;

impl Expected {
    fn new(ranks: usize) -> Self {
        Self { words: vec![0; ranks * WORDS + KEYS], messages: [0; TYPE_NAMES.len()], sum: 0 }
    }

    fn item(&mut self, form: usize, mut to: Rank, mut item: Item, ranks: usize) {
        loop {
            self.messages[form] += 1;
            self.sum += u64::from(item.value);
            self.words[to * WORDS + 2 * form] += 1;
            self.words[to * WORDS + 2 * form + 1] += u64::from(item.value);
            let Some(next) = item.next(to, ranks) else { return };
            (to, item) = next;
        }
    }

    fn summed(&mut self, item: Item, ranks: usize) {
        self.messages[4] += 1;
        self.sum += u64::from(item.value);
        self.words[ranks * WORDS + item.key as usize] += u64::from(item.value);
    }

    fn unique(&mut self, to: Rank, item: Item) {
        self.messages[5] += 1;
        self.words[to * WORDS + 2 * HANDLER_FORMS + item.key as usize] = 1;
    }
}

/// The configurations that this run tests: its share of `turns`.
fn selected_configurations(comm: &Comm, shift: usize, turns: usize) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for routing in routings(comm.size()) {
        for coalescing in COALESCING {
            for reductions in REDUCTIONS {
                for style in STYLES {
                    all.push(format!(
                        "coalescing={coalescing},routing={routing},reductions={reductions},style={style}"
                    ));
                }
            }
        }
    }
    let shift = shift
        + match comm.engine() {
            "threads" => 0,
            "shm" => 2,
            "mpi" => 5,
            _ => 9,
        };
    // More processes than cores are slow, and simulated ranks slower.
    let turns = match comm.engine() {
        "shm" if comm.size() > 8 => 2 * turns,
        "sim" => 8 * turns,
        _ => turns,
    };
    let turn = (comm.size() + shift) % turns;
    all.into_iter().enumerate().filter(|(index, _)| is_long_run() || index % turns == turn).collect()
}

pub(super) fn in_the_world(comm: &Comm) -> Outcome {
    for_each_configuration(comm, 0, TURNS)
}

pub(super) fn on_a_dup(comm: &Comm) -> Outcome {
    for_each_configuration(comm, 8, 2 * TURNS)
}

fn for_each_configuration(comm: &Comm, shift: usize, turns: usize) -> Outcome {
    for (index, config) in selected_configurations(comm, shift, turns) {
        let mut detector = DETECTORS[(index + comm.size()) % DETECTORS.len()];
        // MPI takes a tenth of a millisecond to acknowledge a buffer.
        if comm.engine() == "mpi" && ["coalescing=1,", "coalescing=7,"].iter().any(|fine| config.contains(fine)) {
            detector = Detector::FourCounter;
        }
        counts_and_sums(comm, &config, detector)
            .map_err(|failure| failure.context(format!("{config}, {detector:?}")))?;
    }
    Ok(())
}

/// Runs two epochs: nothing of the first may remain in the second.
fn counts_and_sums(comm: &Comm, config: &str, detector: Detector) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<HandlerState>::builder(comm);
    let [one, touch, batch, from] = [0, 1, 2, 3].map(|form| build.port::<Item>(TYPE_NAMES[form]));
    let summed = build.target("summed", move |item: &Item| item.key as usize % ranks);
    let unique = build.port::<Item>("unique");
    build.on(one, move |state, cx, item| state.handle(cx, 0, one, item));
    build.on_prefetch(
        touch,
        |state: &HandlerState, item: &Item| &state.sums[item.key as usize],
        move |state, cx, item| state.handle(cx, 1, touch, item),
    );
    build.on_batch(batch, move |state, cx, items| items.iter().for_each(|item| state.handle(cx, 2, batch, *item)));
    build.on_from(from, move |state, cx, source, item| {
        if source != item.from as usize {
            state.wrong = Some(format!("sent by rank {source}, said a message of rank {}", item.from));
        }
        state.handle(cx, 3, from, item);
    });
    build.on(summed, move |state: &mut HandlerState, cx, item: Item| {
        if item.key as usize % ranks != state.rank {
            state.wrong = Some(format!("key {} came to rank {}", item.key, state.rank));
        }
        state.sums[item.key as usize] += u64::from(item.value);
        cx.add_to_sum(item.value.into());
    });
    build.combine(summed, |item: &Item| item.key.into(), |into: &mut Item, item: &Item| into.value += item.value);
    build.on(unique, |state: &mut HandlerState, _, item: Item| state.seen[item.key as usize] = 1);
    build.dedup_by_key(unique, |item: &Item| item.key.into());
    build.configure_all(config.parse()?);
    build.detector(detector);
    let mut am = build.start()?;

    let ports = [one, touch, batch, from];
    let mut state = HandlerState::new(me);
    let mut expected = Expected::new(ranks);
    let mut sum_before = 0;
    for round in 0..2 {
        let mut below = random(me, round);
        let items = 0..(ITEMS / 2).div_ceil(ranks);
        let sum = am.epoch_for(&mut state, items, |cx, _, i| {
            let (form, to) = (i % TYPE_NAMES.len(), below(ranks));
            let mut item = Item { key: 0, value: 1 + below(1000) as u32, hops_left: 0, from: me as u32 };
            match form {
                // Half of them have one of eight keys.
                4 => item.key = [below(8), below(KEYS)][below(2)] as u32,
                5 => item.key = below(UNIQUE) as u32,
                _ => (item.key, item.hops_left) = (below(KEYS) as u32, below(3) as u32),
            }
            match form {
                4 => {
                    expected.summed(item, ranks);
                    cx.send_to_owner(&summed, item);
                }
                5 => {
                    expected.unique(to, item);
                    cx.send(unique, to, item);
                }
                _ => {
                    expected.item(form, to, item, ranks);
                    cx.send(ports[form], to, item);
                }
            }
        })?;
        if let Some(wrong) = &state.wrong {
            return Err(Failure::new(wrong.clone()));
        }
        let total = comm.allreduce(&[expected.sum], Sum)?[0];
        check_eq!(sum, total - sum_before, "the sum of epoch {round}");
        sum_before = total;
        check_state(comm, &state, &expected).map_err(|failure| failure.context(format!("epoch {round}")))?;
    }
    check_statistics(comm, &am.statistics(), &expected.messages, config)
}

fn check_state(comm: &Comm, state: &HandlerState, expected: &Expected) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let all = comm.allreduce(&expected.words, Sum)?;
    let (local, sums) = (&all[me * WORDS..][..WORDS], &all[ranks * WORDS..]);
    for (form, got) in state.got.iter().enumerate() {
        let want = Tally { count: local[2 * form], sum: local[2 * form + 1] };
        check_eq!(*got, want, "messages of type `{}`", TYPE_NAMES[form]);
    }
    let owned = |key: usize| if key % ranks == me { sums[key] } else { 0 };
    check_eq!(state.sums, (0..KEYS).map(owned).collect::<Vec<_>>(), "sums by key");
    let seen: Vec<u64> = local[2 * HANDLER_FORMS..].iter().map(|senders| u64::from(*senders > 0)).collect();
    check_eq!(state.seen, seen, "keys that were seen");
    Ok(())
}

/// Checks that each message is counted once.
fn check_statistics(comm: &Comm, types: &[TypeStatistics], sent: &[u64], config: &str) -> Outcome {
    let words =
        |known: &TypeStatistics| [known.sent, known.combined, known.handled, known.forwarded, known.cache_lookups];
    let all = comm.allreduce(&types.iter().flat_map(words).collect::<Vec<u64>>(), Sum)?;
    let sent = comm.allreduce(sent, Sum)?;
    check!(sent.iter().sum::<u64>() > 100_000, "{} messages are too few", sent.iter().sum::<u64>());
    for (index, (known, sent)) in types.iter().zip(sent).enumerate() {
        let name = &known.name;
        let [counted, combined, handled, forwarded, looked_up] = all[5 * index..][..5] else { unreachable!() };
        check_eq!(name, TYPE_NAMES[index], "type {index}");
        check_eq!(counted, sent, "messages `{name}` sent, as counted");
        check_eq!(handled + combined, sent, "messages `{name}` handled and combined");
        check!(forwarded == 0 || !config.contains("direct"), "{forwarded} messages `{name}` were forwarded");
        let combines = index >= HANDLER_FORMS && !config.contains("reductions=off");
        check!(combines || looked_up == 0, "{looked_up} messages `{name}` were looked up in the cache");
        let must = combines && !config.contains("reductions=adaptive") && comm.size() > 1;
        check!(combined > 0 || !must, "of {sent} messages `{name}` none were combined");
        check!(combined <= looked_up, "{combined} of {looked_up} messages `{name}` were combined");
    }
    Ok(())
}

/// Sends `TREEPIE_MESSAGES` messages (default: a million) with the default configuration.
pub(super) fn stress(comm: &Comm) -> Outcome {
    let asked = std::env::var("TREEPIE_MESSAGES").ok().and_then(|messages| messages.parse().ok());
    let all: usize = asked.unwrap_or(1_000_000);
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<Tally>::builder(comm);
    let add = build.port::<u64>("add");
    build.on(add, |tally: &mut Tally, _, value| tally.add(value));
    let mut am = build.start()?;
    let mut tally = Tally::default();
    let mut ledger = super::Ledger::new(comm);
    let mut state = me as u64;
    am.epoch_for(&mut tally, 0..all.div_ceil(ranks), |cx, _, _| {
        // A cheap generator: it must not take longer than sending.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let to = (state >> 33) as usize % ranks;
        ledger.record_sent(to, state);
        cx.send(add, to, state);
    })?;
    ledger.check(comm, tally, "messages and their sum")
}
