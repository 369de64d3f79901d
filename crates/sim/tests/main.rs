//! All integration tests of the crate in one binary, since linking takes longer than most of them.

mod catalogue;
mod common;
#[path = "goal/main.rs"]
mod goal;
mod hierarchical;
mod hosts;
mod levels;
mod machine;
mod machine_noise;
mod machine_order;
mod machine_shares;
mod memory;
mod nested_clusters;
mod oracles;
mod oracles_blue_gene;
mod oracles_figures;
mod oracles_messages;
mod oracles_wide_area;
mod reactors;
mod symmetric;
