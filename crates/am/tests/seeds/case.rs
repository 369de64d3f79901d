//! A test case drawn from a seed.

use std::fmt;

use treepie_am::{Coalescing, Config, Detector, Reductions, Routing, Style};
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_sim::noise::{Noise, SplitMix64};

/// Kinds of messages that programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageKind {
    Plain,
    Combined,
    /// Its handler takes the source.
    WithSource,
    Call,
    /// A call whose reply goes to a closure.
    CallThen,
    Parcel,
    Spawned,
}

pub(crate) const KINDS: [MessageKind; 7] = [
    MessageKind::Plain,
    MessageKind::Combined,
    MessageKind::WithSource,
    MessageKind::Call,
    MessageKind::CallThen,
    MessageKind::Parcel,
    MessageKind::Spawned,
];

/// The form of the handler of plain messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    One,
    Prefetch,
    Batch,
}

/// A simulation: machine, configuration and program.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) detector: Detector,
    /// By kind.
    pub(crate) configs: Vec<Config>,
    /// Bytes from which on bodies are throttled.
    pub(crate) memory: usize,
    pub(crate) settings: Settings,
    pub(crate) form: Form,
    /// The kinds sent, some with a higher frequency.
    pub(crate) kinds: Vec<MessageKind>,
    pub(crate) epochs: u32,
    /// Maximum items of a body.
    pub(crate) items: u64,
    /// Of four bodies, the number without items.
    pub(crate) silent: u64,
    /// Maximum nesting depth of messages of handlers.
    pub(crate) depth: u32,
    /// Numbers of messages that a handler sends. Counters agree by chance most often if some send several and some
    /// none.
    pub(crate) fan_out: &'static [u64],
    /// Approximate messages per epoch.
    pub(crate) messages: u64,
    /// Maximum microseconds of computation between epochs, and between items of a body.
    pub(crate) pauses: (f64, f64),
}

/// A random element.
fn one_of<T: Clone>(random: &mut SplitMix64, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize].clone()
}

impl Case {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        // Some faults show only if counters agree by chance, which is less likely with more ranks.
        let more = one_of(&mut random, &[31, 31, 4]);
        let ranks = 2 + random.below(more) as u32;
        let detector = one_of(&mut random, &[Detector::FourCounter, Detector::Consensus, Detector::Auto]);
        let all = draw_config(&mut random, ranks);
        let is_uniform = random.below(2) == 0;
        let config = |random: &mut SplitMix64| if is_uniform { all.clone() } else { draw_config(random, ranks) };
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
            form: one_of(&mut random, &[Form::One, Form::Prefetch, Form::Batch]),
            kinds: (0..kinds).map(|_| one_of(&mut random, &KINDS)).collect(),
            epochs: if messages > 60 { 1 + random.below(4) as u32 } else { 2 + random.below(15) as u32 },
            // Sometimes enough for interleaving.
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

    /// The time limit in microseconds: several times that of any seed, and short enough to wait for if one never
    /// terminates.
    pub(crate) fn limit(&self) -> f64 {
        let Noise { jitter, slow_ranks, .. } = &self.settings.noise;
        let slowest = slow_ranks.iter().fold(1.0, |most: f64, (_, factor)| most.max(*factor));
        let (between, within) = self.pauses;
        let bodies = f64::from(self.epochs) * (between + self.items as f64 * within) * slowest;
        let messages = 2000.0 * (50.0 + jitter + 10.0 * slowest);
        2.0 * bodies + messages
    }

    /// Whether all messages sent are bulk-synchronous.
    pub(crate) fn is_in_rounds(&self) -> bool {
        self.kinds.iter().all(|kind| self.configs[*kind as usize].style == Style::Bsp)
    }

    /// Whether a type has caches from the start.
    pub(crate) fn combines(&self) -> bool {
        let config = &self.configs[MessageKind::Combined as usize];
        self.kinds.contains(&MessageKind::Combined) && matches!(config.reductions, Reductions::Entries(_))
    }
}

fn draw_settings(random: &mut SplitMix64, ranks: u32, seed: u64, jitter: f64) -> Settings {
    let mut up_to = |most: f64| random.next_f64() * most;
    let costs = LogGP { latency: up_to(20.0), overhead: up_to(3.0), gap: up_to(4.0), per_byte: up_to(0.02) };
    // The simulated barrier is not ordered behind messages, so detectors must not rely on it.
    let barrier = up_to(1.0).round() * 5.0;
    let slow = one_of(random, &[0, 1, 1, 2, 3]);
    let slow_ranks = (0..slow).map(|_| (random.below(ranks.into()) as u32, 1.0 + 200.0 * random.next_f64())).collect();
    Settings { barrier_time: barrier, noise: Noise { seed, jitter, slow_ranks, ..Noise::default() }, ..costs.into() }
}

fn draw_config(random: &mut SplitMix64, ranks: u32) -> Config {
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
