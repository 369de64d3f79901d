//! How an algorithm's messages travel: a matter of the command line, not of the algorithm.

use treepie_am::{ActiveMessages, Builder, Config, Detector};

use crate::Result;

/// How messages travel, and how the end of an epoch is found.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// Coalescing, routing, reductions and style; nothing: as usual, or as `TREEPIE_AM` says.
    pub config: Option<Config>,
    /// How the end is found.
    pub detector: Detector,
    /// A trace is recorded.
    pub trace: bool,
}

impl Messages {
    /// Starts a runtime whose messages travel so.
    pub fn start<S>(&self, mut build: Builder<S>) -> Result<ActiveMessages<S>> {
        if let Some(config) = &self.config {
            build.configure_all(config.clone());
        }
        build.detector(self.detector);
        build.trace(self.trace);
        Ok(build.start()?)
    }
}
