//! Which cases are measured, and what is stated of them.

use treepie::am::{Config, Reductions, Routing};

use super::super::figure::{BATCHES, Figure, Measure};
use super::case::{Case, Form, Program, Task, What, configuration};

/// How much is done in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) ranks: u32,
    pub(super) words: usize,
    /// Updates of each rank.
    pub(super) updates: usize,
}

/// Updates of all ranks in a batch: about 80 ms on two cores.
const ALL_UPDATES: usize = 1 << 23;

/// About what an update takes, to know how many fewer there are to be if each has other work to do.
const NANOS_OF_UPDATE: u32 = 12;

/// From so many ranks on messages can be routed over others.
const ROUTED: u32 = 4;

/// Entries of the cache whose look-ups are measured.
const ENTRIES: usize = 1024;

impl Scale {
    /// Batches of the usual length, unless the user says how many updates there are to be.
    pub(super) fn new(ranks: u32, words: usize, updates: Option<usize>, work: u32) -> Self {
        let usual = ALL_UPDATES / ranks.next_power_of_two() as usize / (1 + work / NANOS_OF_UPDATE) as usize;
        Self { ranks, words, updates: updates.unwrap_or(usual).max(1) }
    }

    /// A figure of a program with updates, named after it.
    pub(super) fn updates(self, name: &str, program: Program) -> Figure {
        self.rate(name, What::Update, program)
    }

    fn rate(self, name: &str, what: What, program: Program) -> Figure {
        let task = Task { what, words: self.words, count: self.updates, batches: BATCHES };
        figure(format!("{name}/{program}"), Case { task, program }, Measure::Rate)
    }

    fn time(self, name: &str, what: What, form: Form, config: &Config) -> Figure {
        // About 3 ms where each rank has a core, about 10 ms where many share one. Even, as messages go there and back.
        let count = if self.ranks <= 2 { 3000 } else { (2000 / self.ranks as usize / 2 * 2).max(10) };
        let task = Task { what, words: 1, count, batches: BATCHES };
        let case = Case { task, program: Program::from(form).configured(config) };
        figure(format!("{name}{}", configuration(config)), case, Measure::Time)
    }

    /// What is measured with a configuration.
    pub(super) fn figures(self, config: &Config) -> Vec<Figure> {
        let (one, touch) = (Program::from(Form::One), Program::from(Form::Touch));
        let forms = [one.clone(), touch.clone(), Form::Batch.into(), one.huge(), touch.clone().huge()];
        let forms = forms.into_iter().chain([Form::Empty.into()]);
        let mut programs: Vec<Program> = forms.map(|program| program.configured(config)).collect();
        if self.ranks == 1 {
            programs.push(Form::Local.into());
        }
        for Cost { base, more, .. } in self.costs(config) {
            for program in [base, more] {
                if !programs.contains(&program) {
                    programs.push(program);
                }
            }
        }
        let mut figures: Vec<Figure> = programs.into_iter().map(|program| self.updates("am/update", program)).collect();
        figures.push(self.rate("am/gather", What::Gather, touch.configured(config)));
        if self.ranks > 1 {
            figures.push(self.time("am/ping", What::Ping, Form::One, config));
        }
        figures.push(self.time("am/epoch", What::Epoch, Form::Empty, config));
        figures.push(self.time("am/epoch/sum", What::Epoch, Form::One, config));
        figures
    }

    /// What follows from pairs of these.
    pub(super) fn costs(self, config: &Config) -> Vec<Cost> {
        let mut costs = Vec::new();
        if self.ranks >= ROUTED {
            let routing = match &config.routing {
                Routing::Direct => Routing::Rook,
                routing => routing.clone(),
            };
            let touch = |routing| Program::from(Form::Touch).configured(&config.clone().routing(routing));
            costs.push(Cost { name: "am/hop", per: Per::Hop, base: touch(Routing::Direct), more: touch(routing) });
        }
        if self.ranks > 1 {
            let combine = |reductions| Program::from(Form::Combine).configured(&config.clone().reductions(reductions));
            costs.push(Cost {
                name: "am/look-up",
                per: Per::LookUp,
                base: combine(Reductions::Off),
                more: combine(Reductions::Entries(ENTRIES)),
            });
        }
        costs
    }
}

fn figure(name: String, case: Case, measure: Measure) -> Figure {
    Figure { name, case: case.to_string(), bytes: 0, measure, through_rings: false }
}

/// The price of something that one program does and another does not.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) per: Per,
    pub(super) base: Program,
    pub(super) more: Program,
}

/// Of what it is the price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    /// That messages are routed, for each that is forwarded on its way.
    Hop,
    /// That messages are combined, for each that is looked for in a cache.
    LookUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ranks: u32, config: &str) -> Vec<String> {
        let scale = Scale::new(ranks, 1 << 22, None, 0);
        scale.figures(&config.parse().unwrap()).into_iter().map(|figure| figure.name).collect()
    }

    #[test]
    fn figures_are_cases_that_ranks_can_read() {
        for ranks in [1, 2, 4, 100] {
            for figure in Scale::new(ranks, 1 << 10, Some(5), 0).figures(&Config::default()) {
                assert_eq!(figure.case.parse::<Case>().map(|case| case.to_string()), Ok(figure.case));
            }
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        let forms =
            ["one", "touch", "batch", "one-huge", "touch-huge", "empty"].map(|form| format!("am/update/{form}"));
        let two = names(2, "");
        assert_eq!(two[..6], forms);
        let rest = ["am/update/combine/reductions=off", "am/update/combine/reductions=1024", "am/gather/touch"];
        assert_eq!(two[6..], [&rest[..], &["am/ping", "am/epoch", "am/epoch/sum"]].concat());
        let alone = names(1, "");
        assert_eq!(alone[6..], ["am/update/local", "am/gather/touch", "am/epoch", "am/epoch/sum"]);
        assert!(names(4, "").contains(&"am/update/touch/routing=rook".to_owned()));
    }

    #[test]
    fn a_configuration_is_that_of_all() {
        let four = names(4, "routing=hypercube");
        assert!(four.iter().filter(|name| name.ends_with("/routing=hypercube")).count() >= 9, "{four:?}");
        // What it is compared with to find the price of a hop.
        assert!(four.contains(&"am/update/touch".to_owned()), "{four:?}");
    }

    #[test]
    fn batches_take_about_as_long_with_more_ranks_and_with_work() {
        let updates = |ranks, work| Scale::new(ranks, 1 << 22, None, work).updates;
        assert_eq!([updates(1, 0), updates(2, 0), updates(8, 0)], [1 << 23, 1 << 22, 1 << 20]);
        assert!((200_000..300_000).contains(&updates(2, 200)), "{}", updates(2, 200));
        assert_eq!(Scale::new(64, 8, Some(3), 1000).updates, 3);
    }
}
