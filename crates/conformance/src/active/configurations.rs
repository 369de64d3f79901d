//! Every routing, coalescing, reduction and style, with handlers of every form.
//!
//! There are 200 of them, and each run has a part: those in the worlds of 1 to 17 threads have all. So that no configuration is
//! seen by few ranks only, other runs begin elsewhere. Long runs have all of them each.

use treepie::am::{ActiveMessages, Context, Detector, Port, TypeStatistics};
use treepie::{Comm, Rank, Sum};

use super::{Tally, is_long, random, routings};
use crate::check::{Failure, Outcome, check, check_eq};

const COALESCING: [&str; 5] = ["adaptive", "1", "7", "512", "4096b"];
const REDUCTIONS: [&str; 4] = ["off", "16", "1024", "adaptive"];
const STYLES: [&str; 2] = ["am", "bsp"];
const DETECTORS: [Detector; 3] = [Detector::Auto, Detector::Counting, Detector::NbxLike];

/// Runs that share the configurations.
const TURNS: usize = 17;

/// Of all ranks together, for each configuration. With those that handlers send there are over 100,000 messages.
const ITEMS: usize = 65_000;

/// Keys of messages that are combined; each has an owner.
const KEYS: usize = 128;
/// Keys of messages of which one is enough, on each rank.
const UNIQUE: usize = 64;

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Item {
    key: u32,
    value: u32,
    /// So often it is sent on.
    left: u32,
    /// Who has sent it now.
    from: u32,
}

/// Handlers of one message, of one that says what it will touch, of a buffer, and of one that asks who sent it.
const FORMS: usize = 4;
const NAMES: [&str; 6] = ["one", "touch", "batch", "from", "summed", "unique"];

#[derive(Clone, Debug, PartialEq)]
struct State {
    rank: Rank,
    got: [Tally; FORMS],
    sums: Vec<u64>,
    seen: Vec<u64>,
    wrong: Option<String>,
}

impl State {
    fn new(rank: Rank) -> Self {
        Self { rank, got: Default::default(), sums: vec![0; KEYS], seen: vec![0; UNIQUE], wrong: None }
    }

    fn take(&mut self, cx: &mut Context<State>, form: usize, port: Port<Item>, item: Item) {
        self.got[form].add(u64::from(item.value));
        cx.add(u64::from(item.value));
        if let Some((to, next)) = item.next(cx.rank(), cx.ranks()) {
            cx.send(port, to, next);
        }
    }
}

impl Item {
    /// To whom it is sent on, and as what.
    fn next(self, rank: Rank, ranks: usize) -> Option<(Rank, Item)> {
        let left = self.left.checked_sub(1)?;
        let to = (self.key as usize * 31 + self.left as usize * 7 + self.value as usize) % ranks;
        Some((to, Item { left, from: rank as u32, ..self }))
    }
}

/// What all ranks together must get, as far as one knows: words of all ranks one behind the other.
struct Expected {
    words: Vec<u64>,
    messages: [u64; NAMES.len()],
    sum: u64,
}

const WORDS: usize = 2 * FORMS + UNIQUE;

impl Expected {
    fn new(ranks: usize) -> Self {
        Self { words: vec![0; ranks * WORDS + KEYS], messages: [0; NAMES.len()], sum: 0 }
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
        self.words[to * WORDS + 2 * FORMS + item.key as usize] = 1;
    }
}

/// The configurations of a run, by its turn among so many.
fn chosen(comm: &Comm, shift: usize, turns: usize) -> Vec<(usize, String)> {
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
    // Many processes on few cores take long for each, and simulated ranks longer.
    let turns = match comm.engine() {
        "shm" if comm.size() > 8 => 2 * turns,
        "sim" => 8 * turns,
        _ => turns,
    };
    let turn = (comm.size() + shift) % turns;
    all.into_iter().enumerate().filter(|(index, _)| is_long() || index % turns == turn).collect()
}

pub(super) fn in_the_world(comm: &Comm) -> Outcome {
    each(comm, 0, TURNS)
}

pub(super) fn on_a_dup(comm: &Comm) -> Outcome {
    each(comm, 8, 2 * TURNS)
}

fn each(comm: &Comm, shift: usize, turns: usize) -> Outcome {
    for (index, config) in chosen(comm, shift, turns) {
        let mut detector = DETECTORS[(index + comm.size()) % DETECTORS.len()];
        // An MPI takes a tenth of a millisecond for each buffer that is acknowledged.
        if comm.engine() == "mpi" && ["coalescing=1,", "coalescing=7,"].iter().any(|fine| config.contains(fine)) {
            detector = Detector::Counting;
        }
        counts_and_sums(comm, &config, detector)
            .map_err(|failure| failure.during(format!("{config}, {detector:?}")))?;
    }
    Ok(())
}

/// Two epochs, so that nothing of the first may be left in the second.
fn counts_and_sums(comm: &Comm, config: &str, detector: Detector) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let mut build = ActiveMessages::<State>::builder(comm);
    let [one, touch, batch, from] = [0, 1, 2, 3].map(|form| build.port::<Item>(NAMES[form]));
    let summed = build.target("summed", move |item: &Item| item.key as usize % ranks);
    let unique = build.port::<Item>("unique");
    build.on(one, move |state, cx, item| state.take(cx, 0, one, item));
    build.on_touch(
        touch,
        |state: &State, item: &Item| &state.sums[item.key as usize],
        move |state, cx, item| state.take(cx, 1, touch, item),
    );
    build.on_batch(batch, move |state, cx, items| items.iter().for_each(|item| state.take(cx, 2, batch, *item)));
    build.on_from(from, move |state, cx, source, item| {
        if source != item.from as usize {
            state.wrong = Some(format!("sent by rank {source}, said a message of rank {}", item.from));
        }
        state.take(cx, 3, from, item);
    });
    build.on(summed, move |state: &mut State, cx, item: Item| {
        if item.key as usize % ranks != state.rank {
            state.wrong = Some(format!("key {} came to rank {}", item.key, state.rank));
        }
        state.sums[item.key as usize] += u64::from(item.value);
        cx.add(item.value.into());
    });
    build.combine(summed, |item: &Item| item.key.into(), |into: &mut Item, item: &Item| into.value += item.value);
    build.on(unique, |state: &mut State, _, item: Item| state.seen[item.key as usize] = 1);
    build.unique(unique, |item: &Item| item.key.into());
    build.configure_all(config.parse()?);
    build.detector(detector);
    let mut am = build.start()?;

    let ports = [one, touch, batch, from];
    let mut state = State::new(me);
    let mut expected = Expected::new(ranks);
    let mut sum_before = 0;
    for round in 0..2 {
        let mut below = random(me, round);
        let items = 0..(ITEMS / 2).div_ceil(ranks);
        let sum = am.epoch_for(&mut state, items, |cx, _, i| {
            let (form, to) = (i % NAMES.len(), below(ranks));
            let mut item = Item { key: 0, value: 1 + below(1000) as u32, left: 0, from: me as u32 };
            match form {
                // Half of them have few keys.
                4 => item.key = [below(8), below(KEYS)][below(2)] as u32,
                5 => item.key = below(UNIQUE) as u32,
                _ => (item.key, item.left) = (below(KEYS) as u32, below(3) as u32),
            }
            match form {
                4 => {
                    expected.summed(item, ranks);
                    cx.send_to(&summed, item);
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
        let total = comm.all_reduce(&[expected.sum], Sum)?[0];
        check_eq!(sum, total - sum_before, "the sum of epoch {round}");
        sum_before = total;
        check_state(comm, &state, &expected).map_err(|failure| failure.during(format!("epoch {round}")))?;
    }
    check_statistics(comm, &am.statistics(), &expected.messages, config)
}

fn check_state(comm: &Comm, state: &State, expected: &Expected) -> Outcome {
    let (me, ranks) = (comm.rank(), comm.size());
    let all = comm.all_reduce(&expected.words, Sum)?;
    let (own, sums) = (&all[me * WORDS..][..WORDS], &all[ranks * WORDS..]);
    for (form, got) in state.got.iter().enumerate() {
        let want = Tally { count: own[2 * form], sum: own[2 * form + 1] };
        check_eq!(*got, want, "messages of the form `{}`", NAMES[form]);
    }
    let owned = |key: usize| if key % ranks == me { sums[key] } else { 0 };
    check_eq!(state.sums, (0..KEYS).map(owned).collect::<Vec<_>>(), "sums by key");
    let seen: Vec<u64> = own[2 * FORMS..].iter().map(|senders| u64::from(*senders > 0)).collect();
    check_eq!(state.seen, seen, "keys that were seen");
    Ok(())
}

/// Nothing is counted twice or forgotten.
fn check_statistics(comm: &Comm, types: &[TypeStatistics], sent: &[u64], config: &str) -> Outcome {
    let words = |known: &TypeStatistics| [known.sent, known.combined, known.handled, known.forwarded, known.looked_up];
    let all = comm.all_reduce(&types.iter().flat_map(words).collect::<Vec<u64>>(), Sum)?;
    let sent = comm.all_reduce(sent, Sum)?;
    check!(sent.iter().sum::<u64>() > 100_000, "{} messages are too few", sent.iter().sum::<u64>());
    for (index, (known, sent)) in types.iter().zip(sent).enumerate() {
        let name = &known.name;
        let [counted, combined, handled, forwarded, looked_up] = all[5 * index..][..5] else { unreachable!() };
        check_eq!(name, NAMES[index], "type {index}");
        check_eq!(counted, sent, "messages `{name}` sent, as counted");
        check_eq!(handled + combined, sent, "messages `{name}` handled and combined");
        check!(forwarded == 0 || !config.contains("direct"), "{forwarded} messages `{name}` were passed on");
        let combines = index >= FORMS && !config.contains("reductions=off");
        check!(combines || looked_up == 0, "{looked_up} messages `{name}` were looked for");
        let must = combines && !config.contains("reductions=adaptive") && comm.size() > 1;
        check!(combined > 0 || !must, "of {sent} messages `{name}` none were combined");
        check!(combined <= looked_up, "{combined} of {looked_up} messages `{name}` were combined");
    }
    Ok(())
}

/// As many as are asked for, as they go if nothing is said.
pub(super) fn very_many(comm: &Comm) -> Outcome {
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
        // Drawing must not take longer than sending.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let to = (state >> 33) as usize % ranks;
        ledger.sent(to, state);
        cx.send(add, to, state);
    })?;
    ledger.check(comm, tally, "messages and their sum")
}
