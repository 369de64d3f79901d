//! How the same algorithm runs: when messages are handled, and whether they are combined on their way.

use anyhow::Context;
use treepie::am::{Config, Detector, Reductions, Style as Handling};
use treepie::graph::Messages;

/// One of the paper's four curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    rounds: bool,
    reductions: bool,
}

impl Style {
    /// All of them, if the configuration can be read.
    pub(super) fn all(config: &str) -> anyhow::Result<[Self; 4]> {
        config.parse::<Config>().context("--config")?;
        let style = |(rounds, reductions)| Self { rounds, reductions };
        Ok([(false, false), (false, true), (true, false), (true, true)].map(style))
    }

    pub(super) fn name(self) -> &'static str {
        match (self.rounds, self.reductions) {
            (false, false) => "am",
            (false, true) => "am+cache",
            (true, false) => "bsp",
            (true, true) => "bsp+cache",
        }
    }

    /// How messages travel, with caches of so many entries.
    pub(super) fn messages(self, config: &str, entries: usize) -> Messages {
        let config: Config = config.parse().expect("it was read before");
        let config = config.style(if self.rounds { Handling::Bsp } else { Handling::Am });
        let reductions = if self.reductions { Reductions::Entries(entries.max(1)) } else { Reductions::Off };
        Messages { config: Some(config.reductions(reductions)), detector: Detector::Auto }
    }
}
