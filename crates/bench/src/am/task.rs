//! The tasks of the active-message benchmark, and Treepie's programs for them.

use std::fmt;
use std::str::FromStr;

use treepie::am::Config;

use super::stream::Keys;
use crate::harness::case::{name_and_numbers, name_of, value_of};

/// The benchmark that the ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// Random updates (GUPS) of all ranks' tables, in one epoch. Counted in updates of all ranks.
    Update,
    /// Index-gather: requests for random words of all ranks' tables, in one epoch. Counted in replies to all ranks.
    Gather,
    /// Ping-pong between handlers on ranks 0 and 1, in one epoch. Counted in messages.
    Ping,
    /// Empty epochs. Counted in epochs.
    Epoch,
}

const TASK_NAMES: [(TaskKind, &str); 4] =
    [(TaskKind::Update, "update"), (TaskKind::Gather, "gather"), (TaskKind::Ping, "ping"), (TaskKind::Epoch, "epoch")];

/// What the ranks run, and its size. As text: `update:4194304`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(super) kind: TaskKind,
    /// Words of each rank's table.
    pub(super) words: usize,
}

/// Variants of the update handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandlerKind {
    /// Handles one message.
    PerMessage,
    /// Handles one message; the runtime prefetches its word.
    Prefetch,
    /// The same, and updates of the same word are combined.
    Combine,
    /// Handles a batch of messages.
    Batch,
    /// Takes a batch of messages and does nothing.
    Empty,
    /// No messages: a loop over the local table; for one rank.
    Local,
}

const HANDLER_NAMES: [(HandlerKind, &str); 6] = [
    (HandlerKind::PerMessage, "one"),
    (HandlerKind::Prefetch, "touch"),
    (HandlerKind::Combine, "combine"),
    (HandlerKind::Batch, "batch"),
    (HandlerKind::Empty, "empty"),
    (HandlerKind::Local, "local"),
];

/// Treepie's program. As text: `touch-huge/skewed/work=200/routing=rook`; all but the first part are optional.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(super) handler: HandlerKind,
    /// Whether tables are on huge pages.
    pub(super) huge_pages: bool,
    pub(super) keys: Keys,
    /// Nanoseconds of extra work per handled message.
    pub(super) work: u32,
    pub(super) config: Config,
}

impl From<HandlerKind> for Program {
    fn from(handler: HandlerKind) -> Self {
        Self { handler, huge_pages: false, keys: Keys::Uniform, work: 0, config: Config::default() }
    }
}

impl Program {
    pub(super) fn with_huge_pages(self) -> Self {
        Self { huge_pages: true, ..self }
    }

    pub(super) fn with_config(self, config: &Config) -> Self {
        Self { config: config.clone(), ..self }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", name_of(&TASK_NAMES, self.kind), self.words)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", name_of(&HANDLER_NAMES, self.handler), if self.huge_pages { "-huge" } else { "" })?;
        if self.keys == Keys::Skewed {
            write!(f, "/skewed")?;
        }
        if self.work > 0 {
            write!(f, "/work={}", self.work)?;
        }
        write!(f, "{}", config_suffix(&self.config))
    }
}

/// The settings of a configuration that differ from the default, as the suffix of a name: `/routing=rook`.
pub(super) fn config_suffix(config: &Config) -> String {
    let (all, defaults) = (config.to_string(), Config::default().to_string());
    let differing: Vec<&str> = all.split(',').filter(|part| !defaults.split(',').any(|d| d == *part)).collect();
    if differing.is_empty() { String::new() } else { format!("/{}", differing.join(",")) }
}

impl FromStr for Task {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, [words]) = name_and_numbers::<1>(text).ok_or(())?;
        let kind = value_of(&TASK_NAMES, name).filter(|_| words.is_power_of_two()).ok_or(())?;
        Ok(Self { kind, words })
    }
}

impl FromStr for Program {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let name = parts.next().ok_or(())?;
        let (name, huge_pages) = name.strip_suffix("-huge").map_or((name, false), |name| (name, true));
        let mut program = Self { huge_pages, ..value_of(&HANDLER_NAMES, name).ok_or(())?.into() };
        for part in parts {
            if part == "skewed" {
                program.keys = Keys::Skewed;
            } else if let Some(nanos) = part.strip_prefix("work=") {
                program.work = nanos.parse().map_err(|_| ())?;
            } else {
                program.config = part.parse().map_err(|_| ())?;
            }
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rank::AmPrograms;
    use super::*;
    use crate::harness::testing::{assert_no_cases, assert_round_trip};

    #[test]
    fn cases_round_trip_through_text() {
        let texts = [
            "update:4194304:1000:9@touch-huge",
            "update:1:1:1@combine/skewed/work=200/routing=rook,reductions=off",
            "update:8:5:2@one/coalescing=512b,routing=grid:4x4",
            "gather:1024:77:3@touch/style=bsp",
            "ping:1:10:2@one/routing=clusters:2+2",
            "epoch:1:10:2@one",
        ];
        assert_round_trip::<AmPrograms>(texts.map(str::to_owned));
        let tasks = ["", "update:8:5:2", "update:8:5@one", "update:7:5:2@one", "update:8:0:2@one", "walk:8:5:2@one"];
        assert_no_cases::<AmPrograms>(&tasks);
        assert_no_cases::<AmPrograms>(&["update:8:5:2@all", "update:8:5:2@one/fast", "update:8:5:2@one/work=much"]);
    }

    #[test]
    fn names_have_the_settings_that_are_not_the_default() {
        let named = |text: &str| config_suffix(&text.parse().unwrap());
        assert_eq!(named("style=am,coalescing=adaptive"), "");
        assert_eq!(named("style=bsp,coalescing=16"), "/coalescing=16,style=bsp");
    }
}
