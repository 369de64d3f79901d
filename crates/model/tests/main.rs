//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod closed;
mod common;
mod oracles_applications;
mod oracles_congestion;
mod oracles_figures;
mod oracles_loggp;
mod oracles_measurement;
mod oracles_pipelines;
mod oracles_plogp;
mod oracles_split;
mod profiles;
mod rendezvous;
mod rows;
