//! Execution styles of an algorithm: active messages or BSP, with or without reductions.

use anyhow::Context;
use treepie::am::{Config, Detector, Reductions, Style as Handling};
use treepie::graph::AmConfig;

/// One of the paper's four curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    bsp: bool,
    reductions: bool,
}

impl Style {
    /// All styles; checks the configuration.
    pub(super) fn all(config: &str) -> anyhow::Result<[Self; 4]> {
        config.parse::<Config>().context("--config")?;
        let style = |(bsp, reductions)| Self { bsp, reductions };
        Ok([(false, false), (false, true), (true, false), (true, true)].map(style))
    }

    pub(super) fn name(self) -> &'static str {
        match (self.bsp, self.reductions) {
            (false, false) => "am",
            (false, true) => "am+cache",
            (true, false) => "bsp",
            (true, true) => "bsp+cache",
        }
    }

    /// The configuration, with caches of `entries` entries.
    pub(super) fn am_config(self, config: &str, entries: usize) -> AmConfig {
        let config: Config = config.parse().expect("checked before");
        let config = config.style(if self.bsp { Handling::Bsp } else { Handling::Am });
        let reductions = if self.reductions { Reductions::Entries(entries.max(1)) } else { Reductions::Off };
        AmConfig { config: Some(config.reductions(reductions)), detector: Detector::Auto }
    }
}
