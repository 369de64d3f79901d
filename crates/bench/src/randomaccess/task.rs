//! The tasks of the RandomAccess benchmark, and Treepie's programs for them.

use std::fmt;
use std::str::FromStr;

use treepie::randomaccess::{Algorithm, Pages, RandomAccess, Refinements};

use crate::harness::case::{name_and_numbers, name_of, value_of};

/// What the MPI program does; Treepie updates the table of all ranks in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// Updates of the table of all ranks.
    Update,
    /// Updates of each rank's own table, without an exchange.
    Alone,
}

const NAMES: [(TaskKind, &str); 2] = [(TaskKind::Update, "update"), (TaskKind::Alone, "alone")];

/// As text: `update:8388608:1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(super) kind: TaskKind,
    /// Words of the table of all ranks.
    pub(super) words: usize,
    pub(super) look_ahead: usize,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", name_of(&NAMES, self.kind), self.words, self.look_ahead)
    }
}

impl FromStr for Task {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, [words, look_ahead]) = name_and_numbers::<2>(text).ok_or(())?;
        Ok(Self { kind: value_of(&NAMES, name).ok_or(())?, words, look_ahead })
    }
}

/// An algorithm, with refinements. As text: `hypercube/prepost,late-wait`; without the second part, those by default. On
/// base pages it ends in `/base`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    pub(super) algorithm: Algorithm,
    pub(super) refinements: Option<Refinements>,
    pub(super) pages: Pages,
}

impl Program {
    /// The benchmark of a task.
    pub(super) fn settings(&self, task: &Task, updates: u64) -> RandomAccess {
        RandomAccess::new(task.words as u64)
            .updates(updates)
            .look_ahead(task.look_ahead)
            .algorithm(self.algorithm.clone())
            .refinements(self.refinements)
            .pages(self.pages)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.algorithm)?;
        if let Some(refinements) = self.refinements {
            write!(f, "/{refinements}")?;
        }
        if self.pages == Pages::Base { write!(f, "/base") } else { Ok(()) }
    }
}

impl FromStr for Program {
    type Err = treepie::Error;

    fn from_str(text: &str) -> Result<Self, treepie::Error> {
        let (text, pages) = text.strip_suffix("/base").map_or((text, Pages::Huge), |text| (text, Pages::Base));
        let (id, refinements) = text.split_once('/').map_or((text, None), |(id, rest)| (id, Some(rest)));
        Ok(Self { algorithm: id.parse()?, refinements: refinements.map(str::parse).transpose()?, pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::case::Case;

    #[test]
    fn cases_are_text() {
        for text in [
            "update:8388608:1024:4194304:9@hypercube:order=morton/prepost,late-wait/base",
            "alone:64:1:100:3@auto",
            "update:64:7:100:3@am:routing=grid",
        ] {
            assert_eq!(text.parse::<Case<Task, Program>>().unwrap().to_string(), text);
        }
        for wrong in ["update:64:100:3@auto", "updates:64:7:100:3@auto", "update:64:7:100:3@x", "update:64:7:100:3"] {
            assert!(wrong.parse::<Case<Task, Program>>().is_err(), "{wrong}");
        }
    }
}
