//! The cases that are measured, and their figures.

use treepie::am::{Config, Reductions, Routing};

use super::rank::AmCase;
use super::task::{HandlerKind, Program, Task, TaskKind, config_suffix};
use crate::harness::figure::{BATCHES, Figure, Measure};

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) ranks: u32,
    pub(super) words: usize,
    /// Updates of each rank.
    pub(super) updates: usize,
}

/// Updates of all ranks in a batch: about 80 ms on two cores.
const TOTAL_UPDATES: usize = 1 << 23;

/// Approximate time of an update, to reduce their number if each does extra work.
const NANOS_PER_UPDATE: u32 = 12;

/// The least number of ranks at which messages can be routed over others.
const MIN_ROUTED_RANKS: u32 = 4;

/// Entries of the cache whose lookups are measured.
const CACHE_ENTRIES: usize = 1024;

impl Scale {
    /// Batches of the default length, unless the user gives the number of updates.
    pub(super) fn new(ranks: u32, words: usize, updates: Option<usize>, work: u32) -> Self {
        let default = TOTAL_UPDATES / ranks.next_power_of_two() as usize / (1 + work / NANOS_PER_UPDATE) as usize;
        Self { ranks, words, updates: updates.unwrap_or(default).max(1) }
    }

    /// The figure of an update program, named after it.
    pub(super) fn update_figure(self, name: &str, program: Program) -> Figure {
        self.rate_figure(name, TaskKind::Update, program)
    }

    fn rate_figure(self, name: &str, kind: TaskKind, program: Program) -> Figure {
        let (name, task) = (format!("{name}/{program}"), Task { kind, words: self.words });
        Figure::new(name, &AmCase { task, count: self.updates, batches: BATCHES, program }, Measure::Rate)
    }

    fn time_figure(self, name: &str, kind: TaskKind, handler: HandlerKind, config: &Config) -> Figure {
        // About 3 ms where each rank has a core, about 10 ms if oversubscribed. Even, as a ping needs its pong.
        let count = if self.ranks <= 2 { 3000 } else { (2000 / self.ranks as usize / 2 * 2).max(10) };
        let (task, program) = (Task { kind, words: 1 }, Program::from(handler).with_config(config));
        let case = AmCase { task, count, batches: BATCHES, program };
        Figure::new(format!("{name}{}", config_suffix(config)), &case, Measure::Time)
    }

    /// The figures measured with a configuration.
    pub(super) fn figures(self, config: &Config) -> Vec<Figure> {
        let (per_message, prefetch) = (Program::from(HandlerKind::PerMessage), Program::from(HandlerKind::Prefetch));
        let handlers = [
            per_message.clone(),
            prefetch.clone(),
            HandlerKind::Batch.into(),
            per_message.with_huge_pages(),
            prefetch.clone().with_huge_pages(),
        ];
        let handlers = handlers.into_iter().chain([HandlerKind::Empty.into()]);
        let mut programs: Vec<Program> = handlers.map(|program| program.with_config(config)).collect();
        if self.ranks == 1 {
            programs.push(HandlerKind::Local.into());
        }
        for Cost { base, variant, .. } in self.costs(config) {
            for program in [base, variant] {
                if !programs.contains(&program) {
                    programs.push(program);
                }
            }
        }
        let mut figures: Vec<Figure> =
            programs.into_iter().map(|program| self.update_figure("am/update", program)).collect();
        figures.push(self.rate_figure("am/gather", TaskKind::Gather, prefetch.with_config(config)));
        if self.ranks > 1 {
            figures.push(self.time_figure("am/ping", TaskKind::Ping, HandlerKind::PerMessage, config));
        }
        figures.push(self.time_figure("am/epoch", TaskKind::Epoch, HandlerKind::Empty, config));
        figures.push(self.time_figure("am/epoch/sum", TaskKind::Epoch, HandlerKind::PerMessage, config));
        figures
    }

    /// The costs derived from pairs of these.
    pub(super) fn costs(self, config: &Config) -> Vec<Cost> {
        let mut costs = Vec::new();
        if self.ranks >= MIN_ROUTED_RANKS {
            let routing = match &config.routing {
                Routing::Direct => Routing::Rook,
                routing => routing.clone(),
            };
            let prefetch = |routing| Program::from(HandlerKind::Prefetch).with_config(&config.clone().routing(routing));
            costs.push(Cost {
                name: "am/hop",
                unit: CostUnit::Hop,
                base: prefetch(Routing::Direct),
                variant: prefetch(routing),
            });
        }
        if self.ranks > 1 {
            let combine =
                |reductions| Program::from(HandlerKind::Combine).with_config(&config.clone().reductions(reductions));
            costs.push(Cost {
                name: "am/look-up",
                unit: CostUnit::Lookup,
                base: combine(Reductions::Off),
                variant: combine(Reductions::Entries(CACHE_ENTRIES)),
            });
        }
        costs
    }
}

/// The cost of a feature: the difference of a program with it and one without.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) unit: CostUnit,
    pub(super) base: Program,
    pub(super) variant: Program,
}

/// The event that a cost is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostUnit {
    /// A forwarded message, with routing.
    Hop,
    /// A cache lookup, with combining.
    Lookup,
}

#[cfg(test)]
mod tests {
    use super::super::rank::AmPrograms;
    use super::*;
    use crate::harness::testing::assert_round_trip;

    fn names(ranks: u32, config: &str) -> Vec<String> {
        let scale = Scale::new(ranks, 1 << 22, None, 0);
        scale.figures(&config.parse().unwrap()).into_iter().map(|figure| figure.name).collect()
    }

    #[test]
    fn ranks_can_parse_the_cases() {
        for ranks in [1, 2, 4, 100] {
            let figures = Scale::new(ranks, 1 << 10, Some(5), 0).figures(&Config::default());
            assert_round_trip::<AmPrograms>(figures.into_iter().map(|figure| figure.case));
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        let handlers =
            ["one", "touch", "batch", "one-huge", "touch-huge", "empty"].map(|handler| format!("am/update/{handler}"));
        let two = names(2, "");
        assert_eq!(two[..6], handlers);
        let rest = ["am/update/combine/reductions=off", "am/update/combine/reductions=1024", "am/gather/touch"];
        assert_eq!(two[6..], [&rest[..], &["am/ping", "am/epoch", "am/epoch/sum"]].concat());
        let alone = names(1, "");
        assert_eq!(alone[6..], ["am/update/local", "am/gather/touch", "am/epoch", "am/epoch/sum"]);
        assert!(names(4, "").contains(&"am/update/touch/routing=rook".to_owned()));
    }

    #[test]
    fn a_configuration_applies_to_all() {
        let four = names(4, "routing=hypercube");
        assert!(four.iter().filter(|name| name.ends_with("/routing=hypercube")).count() >= 9, "{four:?}");
        // The baseline of the cost of a hop.
        assert!(four.contains(&"am/update/touch".to_owned()), "{four:?}");
    }

    #[test]
    fn batch_time_is_independent_of_ranks_and_work() {
        let updates = |ranks, work| Scale::new(ranks, 1 << 22, None, work).updates;
        assert_eq!([updates(1, 0), updates(2, 0), updates(8, 0)], [1 << 23, 1 << 22, 1 << 20]);
        assert!((200_000..300_000).contains(&updates(2, 200)), "{}", updates(2, 200));
        assert_eq!(Scale::new(64, 8, Some(3), 1000).updates, 3);
    }
}
