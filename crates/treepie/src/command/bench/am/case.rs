//! What the benchmark of active messages measures: one table. Treepie's ranks get its cases as their arguments, and the MPI
//! program what stands before the `@`.

use std::fmt;
use std::str::FromStr;

use treepie::am::Config;

use super::super::figure::name_and_numbers;
use super::stream::Keys;

/// What ranks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Random updates of all ranks' tables, in one epoch. Counted in updates of all ranks.
    Update,
    /// Questions for random words of all ranks' tables, in one epoch. Counted in answers to all ranks.
    Gather,
    /// A message whose handler sends it back, between ranks 0 and 1, in one epoch. Counted in messages.
    Ping,
    /// Epochs in which nobody sends anything. Counted in epochs.
    Epoch,
}

const NAMES: [(What, &str); 4] =
    [(What::Update, "update"), (What::Gather, "gather"), (What::Ping, "ping"), (What::Epoch, "epoch")];

/// What both sides do, and how much of it. As text: `update:4194304:4194304:9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) what: What,
    /// In the table of each rank.
    pub(super) words: usize,
    /// Updates or questions of each rank, messages, or epochs, in a batch.
    pub(super) count: usize,
    /// How many batches; one more goes before, to warm up.
    pub(super) batches: usize,
}

/// How the handler of updates is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For one message.
    One,
    /// For one message, after it has told which word it will need.
    Touch,
    /// The same, and updates of the same word may be combined.
    Combine,
    /// For many messages.
    Batch,
    /// For many messages, and does nothing.
    Empty,
    /// No messages at all, a loop over the own table; for one rank.
    Local,
}

const FORMS: [(Form, &str); 6] = [
    (Form::One, "one"),
    (Form::Touch, "touch"),
    (Form::Combine, "combine"),
    (Form::Batch, "batch"),
    (Form::Empty, "empty"),
    (Form::Local, "local"),
];

/// How Treepie's ranks do it. As text: `touch-huge/skewed/work=200/routing=rook`, of which only the first is always there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) form: Form,
    /// Whether tables are on huge pages.
    pub(super) huge: bool,
    pub(super) keys: Keys,
    /// Nanoseconds of other work for each message that is handled.
    pub(super) work: u32,
    pub(super) config: Config,
}

impl From<Form> for Program {
    fn from(form: Form) -> Self {
        Self { form, huge: false, keys: Keys::Uniform, work: 0, config: Config::default() }
    }
}

impl Program {
    pub(super) fn huge(self) -> Self {
        Self { huge: true, ..self }
    }

    pub(super) fn configured(self, config: &Config) -> Self {
        Self { config: config.clone(), ..self }
    }
}

/// One thing to measure. As text: `update:4194304:4194304:9@touch-huge`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(super) task: Task,
    pub(super) program: Program,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = NAMES.iter().find(|(what, _)| *what == self.what).expect("all have names");
        write!(f, "{name}:{}:{}:{}", self.words, self.count, self.batches)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = FORMS.iter().find(|(form, _)| *form == self.form).expect("all forms have names");
        write!(f, "{name}{}", if self.huge { "-huge" } else { "" })?;
        if self.keys == Keys::Skewed {
            write!(f, "/skewed")?;
        }
        if self.work > 0 {
            write!(f, "/work={}", self.work)?;
        }
        write!(f, "{}", configuration(&self.config))
    }
}

/// What a configuration says that is not the default, as the end of a name: `/routing=rook`.
pub(super) fn configuration(config: &Config) -> String {
    let (all, usual) = (config.to_string(), Config::default().to_string());
    let said: Vec<&str> = all.split(',').filter(|part| !usual.split(',').any(|usual| usual == *part)).collect();
    if said.is_empty() { String::new() } else { format!("/{}", said.join(",")) }
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
        let (what, _) = NAMES.iter().find(|(_, known)| *known == name).ok_or(())?;
        let possible = words.is_power_of_two() && count > 0 && batches > 0;
        possible.then_some(Self { what: *what, words, count, batches }).ok_or(())
    }
}

impl FromStr for Program {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let name = parts.next().ok_or(())?;
        let (name, huge) = name.strip_suffix("-huge").map_or((name, false), |name| (name, true));
        let (form, _) = FORMS.iter().find(|(_, known)| *known == name).ok_or(())?;
        let mut program = Self { huge, ..Self::from(*form) };
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
        parse().ok_or_else(|| "not a case as update:4194304:4194304:9@touch-huge".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
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
    fn names_tell_what_is_not_the_default() {
        let named = |text: &str| configuration(&text.parse().unwrap());
        assert_eq!(named("style=am,coalescing=adaptive"), "");
        assert_eq!(named("style=bsp,coalescing=16"), "/coalescing=16,style=bsp");
    }
}
