//! What a seed draws.

use std::fmt;

use treepie_am::{Coalescing, Config, Detector, Reductions, Routing, Style};
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_sim::noise::{Noise, Random};

/// Kinds of messages that programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Plain,
    Combined,
    /// Its handler asks who sent it.
    Sourced,
    Call,
    /// A call that a closure waits for.
    Ask,
    Parcel,
    Spawned,
}

pub(crate) const KINDS: [Kind; 7] =
    [Kind::Plain, Kind::Combined, Kind::Sourced, Kind::Call, Kind::Ask, Kind::Parcel, Kind::Spawned];

/// Which form the handler of plain messages has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    One,
    Touch,
    Batch,
}

/// A simulation: machine, configuration and program.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) detector: Detector,
    /// Of each kind.
    pub(crate) configs: Vec<Config>,
    /// Bytes from which on bodies are slowed down.
    pub(crate) memory: usize,
    pub(crate) settings: Settings,
    pub(crate) form: Form,
    /// Those that are sent, some more often than others.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) epochs: u32,
    /// Items of a body, at most.
    pub(crate) items: u64,
    /// So many of four bodies have none.
    pub(crate) silent: u64,
    /// How deep messages of handlers are nested, at most.
    pub(crate) depth: u32,
    /// Numbers of messages that a handler sends. Counters are the same by chance most often where some send several and some
    /// none.
    pub(crate) fan_out: &'static [u64],
    /// Messages of an epoch, about.
    pub(crate) messages: u64,
    /// Microseconds that a rank computes between epochs, and between items of a body, at most.
    pub(crate) pauses: (f64, f64),
}

/// One of some things.
fn one_of<T: Clone>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize].clone()
}

impl Case {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Some mistakes show only where counters are the same by chance, which is less likely the more there are of them.
        let more = one_of(&mut random, &[31, 31, 4]);
        let ranks = 2 + random.below(more) as u32;
        let detector = one_of(&mut random, &[Detector::Counting, Detector::NbxLike, Detector::Auto]);
        let all = draw_config(&mut random, ranks);
        let is_uniform = random.below(2) == 0;
        let config = |random: &mut Random| if is_uniform { all.clone() } else { draw_config(random, ranks) };
        let configs = KINDS.iter().map(|_| config(&mut random)).collect();
        let jitter = one_of(&mut random, &[0.0, 5.0, 100.0, 2000.0, 20_000.0]);
        let kinds = 1 + random.below(6);
        let messages = one_of(&mut random, &[10, 30, 60, 600]);
        let fan_outs: [&[u64]; 7] = [&[0], &[0, 1], &[0, 1, 2, 3], &[1], &[0, 2], &[0, 0, 4], &[0, 3]];
        Self {
            seed,
            ranks,
            detector,
            configs,
            memory: one_of(&mut random, &[1, 300, 4 << 20]),
            settings: draw_settings(&mut random, ranks, seed, jitter),
            form: one_of(&mut random, &[Form::One, Form::Touch, Form::Batch]),
            kinds: (0..kinds).map(|_| one_of(&mut random, &KINDS)).collect(),
            epochs: if messages > 60 { 1 + random.below(4) as u32 } else { 2 + random.below(15) as u32 },
            // Now and then so many that messages are handled between them.
            items: one_of(&mut random, if seed % 16 == 5 { &[600] } else { &[0, 1, 4, 20] }),
            silent: one_of(&mut random, &[0, 0, 3]),
            depth: one_of(&mut random, &[3, 8, 30]),
            fan_out: one_of(&mut random, &fan_outs),
            messages,
            pauses: (
                one_of(&mut random, &[0.0, 50.0, 3.0 * jitter]),
                one_of(&mut random, &[0.0, 10.0, jitter, 3.0 * jitter]),
            ),
        }
    }

    /// Microseconds in which everything ends: several times as long as any seed takes, and not too long to wait for if one never
    /// ends.
    pub(crate) fn limit(&self) -> f64 {
        let Noise { jitter, slow_ranks, .. } = &self.settings.noise;
        let slowest = slow_ranks.iter().fold(1.0, |most: f64, (_, factor)| most.max(*factor));
        let (between, within) = self.pauses;
        let bodies = f64::from(self.epochs) * (between + self.items as f64 * within) * slowest;
        let messages = 2000.0 * (50.0 + jitter + 10.0 * slowest);
        2.0 * bodies + messages
    }

    /// Whether all that is sent is delivered at the end of rounds.
    pub(crate) fn is_in_rounds(&self) -> bool {
        self.kinds.iter().all(|kind| self.configs[*kind as usize].style == Style::Bsp)
    }

    /// Whether any type has caches from the beginning on.
    pub(crate) fn combines(&self) -> bool {
        let config = &self.configs[Kind::Combined as usize];
        self.kinds.contains(&Kind::Combined) && matches!(config.reductions, Reductions::Entries(_))
    }
}

fn draw_settings(random: &mut Random, ranks: u32, seed: u64, jitter: f64) -> Settings {
    let mut up_to = |most: f64| random.unit() * most;
    let costs = LogGP { latency: up_to(20.0), overhead: up_to(3.0), gap: up_to(4.0), per_byte: up_to(0.02) };
    // The machine's own barrier is not behind all messages, so nobody may rely on it.
    let barrier = up_to(1.0).round() * 5.0;
    let slow = one_of(random, &[0, 1, 1, 2, 3]);
    let slow_ranks = (0..slow).map(|_| (random.below(ranks.into()) as u32, 1.0 + 200.0 * random.unit())).collect();
    Settings { barrier, noise: Noise { seed, jitter, slow_ranks, ..Noise::default() }, ..costs.into() }
}

fn draw_config(random: &mut Random, ranks: u32) -> Config {
    let coalescing = match random.below(4) {
        0 => Coalescing::Adaptive,
        1 => Coalescing::Messages(1),
        2 => Coalescing::Bytes(1 + random.below(1000) as usize),
        _ => Coalescing::Messages(1 + random.below(64) as usize),
    };
    let routing = match random.below(5) {
        0 => Routing::Direct,
        1 => Routing::Rook,
        2 => {
            let (first, second) = (1 + random.below(ranks.into()) as u32, 1 + random.below(4) as u32);
            Routing::Grid(vec![first, second, ranks.div_ceil(first * second)])
        }
        3 => Routing::Hypercube,
        _ => {
            let (mut sizes, mut left) = (Vec::new(), ranks);
            while left > 0 {
                sizes.push(1 + random.below(left.into()) as u32);
                left -= sizes.last().unwrap();
            }
            Routing::Clusters(sizes)
        }
    };
    let reductions = match random.below(3) {
        0 => Reductions::Off,
        1 => Reductions::Entries(1 + random.below(16) as usize),
        _ => Reductions::Adaptive,
    };
    let style = one_of(random, &[Style::Am, Style::Bsp]);
    Config::default().coalescing(coalescing).routing(routing).reductions(reductions).style(style)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { seed, ranks, detector, kinds, epochs, settings, .. } = self;
        write!(f, "seed {seed}: {ranks} ranks, {detector:?}, {epochs} epochs, jitter {} us", settings.noise.jitter)?;
        let mut kinds = kinds.clone();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.iter().try_for_each(|kind| write!(f, ", {kind:?} ({})", self.configs[*kind as usize]))
    }
}
