//! The cases of the active-message benchmark. Treepie's ranks get them as arguments, the MPI program the part before
//! the
//! `@`.

use std::fmt;
use std::str::FromStr;

use treepie::am::Config;

use super::super::figure::name_and_numbers;
use super::stream::Keys;

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

/// A benchmark and its size, the same on both sides. As text: `update:4194304:4194304:9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) kind: TaskKind,
    /// Words of each rank's table.
    pub(super) words: usize,
    /// Updates or requests of each rank, messages, or epochs, per batch.
    pub(super) count: usize,
    /// Number of batches, after one warm-up batch.
    pub(super) batches: usize,
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
pub(super) struct Program {
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

/// A case. As text: `update:4194304:4194304:9@touch-huge`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(super) task: Task,
    pub(super) program: Program,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = TASK_NAMES.iter().find(|(kind, _)| *kind == self.kind).expect("all kinds have names");
        write!(f, "{name}:{}:{}:{}", self.words, self.count, self.batches)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) =
            HANDLER_NAMES.iter().find(|(handler, _)| *handler == self.handler).expect("all handlers have names");
        write!(f, "{name}{}", if self.huge_pages { "-huge" } else { "" })?;
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

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.task, self.program)
    }
}

impl FromStr for Task {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, [words, count, batches]) = name_and_numbers(text).ok_or(())?;
        let (kind, _) = TASK_NAMES.iter().find(|(_, known)| *known == name).ok_or(())?;
        let is_valid = words.is_power_of_two() && count > 0 && batches > 0;
        is_valid.then_some(Self { kind: *kind, words, count, batches }).ok_or(())
    }
}

impl FromStr for Program {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let name = parts.next().ok_or(())?;
        let (name, huge_pages) = name.strip_suffix("-huge").map_or((name, false), |name| (name, true));
        let (handler, _) = HANDLER_NAMES.iter().find(|(_, known)| *known == name).ok_or(())?;
        let mut program = Self { huge_pages, ..Self::from(*handler) };
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

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (task, program) = text.split_once('@')?;
            Some(Self { task: task.parse().ok()?, program: program.parse().ok()? })
        };
        parse().ok_or_else(|| "expected a case such as update:4194304:4194304:9@touch-huge".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_round_trip_through_text() {
        for text in [
            "update:4194304:1000:9@touch-huge",
            "update:1:1:1@combine/skewed/work=200/routing=rook,reductions=off",
            "update:8:5:2@one/coalescing=512b,routing=grid:4x4",
            "gather:1024:77:3@touch/style=bsp",
            "ping:1:10:2@one/routing=clusters:2+2",
            "epoch:1:10:2@one",
        ] {
            assert_eq!(text.parse::<Case>().map(|case| case.to_string()).as_deref(), Ok(text));
        }
        let bad = ["", "update:8:5:2", "update:8:5@one", "update:7:5:2@one", "update:8:0:2@one", "walk:8:5:2@one"];
        for bad in bad.into_iter().chain(["update:8:5:2@all", "update:8:5:2@one/fast", "update:8:5:2@one/work=much"]) {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_have_the_settings_that_are_not_the_default() {
        let named = |text: &str| config_suffix(&text.parse().unwrap());
        assert_eq!(named("style=am,coalescing=adaptive"), "");
        assert_eq!(named("style=bsp,coalescing=16"), "/coalescing=16,style=bsp");
    }
}
