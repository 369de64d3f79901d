//! `treepie bench weak`: weak scaling of graph algorithms, simulated on tori.   [active messages paper, figures 3 to 6]
//!
//! Each algorithm runs with active messages and bulk-synchronously, with and without reduction caches: the same code
//! with another configuration. The results are virtual time and the peak memory of a rank for messages. The setup is
//! the paper's, scaled down: caches and memory shrink with the number of vertices per rank.

mod kernel;
mod style;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use kernel::{Kernel, KernelResult};
use style::Style;
use treepie_model::machines::PaperMachine;
use treepie_topology::Network;

use crate::harness::launch::on_simulated_ranks;
use crate::harness::table::format_number;
use crate::parameters;
use crate::record::{Record, Records};
use treepie_base::units::ByteCount;

/// Weak scaling of graph algorithms, simulated on tori: active messages and BSP, with and without reductions
#[derive(clap::Args)]
pub(crate) struct WeakScaling {
    /// Numbers of ranks, powers of two, separated by commas
    #[arg(short = 'n', long, value_name = "P", value_delimiter = ',', default_value = "2,4,8,16,32,64,128,256,512", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: Vec<u32>,
    /// Algorithms, separated by commas
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        value_enum,
        default_value = "bfs,sssp,sv,ps+sv,pagerank"
    )]
    kernels: Vec<Kernel>,
    /// 2^SCALE vertices per rank in bfs; fewer in the others, in the proportions of the paper
    #[arg(long, value_name = "SCALE", default_value = "12", value_parser = clap::value_parser!(u32).range(4..=19))]
    scale: u32,
    /// Microseconds to send, look up in a cache, or handle a message
    #[arg(long, value_name = "US", default_value = "0.1")]
    work: f64,
    /// Active-message configuration, e.g. coalescing=1024,routing=rook
    #[arg(long, value_name = "SETTINGS", default_value = "coalescing=1024,routing=rook")]
    config: String,
    /// Memory limit for messages, without caches, per vertex of a rank
    #[arg(long, value_name = "BYTES", default_value = "384")]
    memory: ByteCount,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Vertices of a rank in the paper, as a power of two.
const PAPER_SCALE: u32 = 19;

impl WeakScaling {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        ensure!(self.work.is_finite() && self.work >= 0.0, "--work must be 0 or more microseconds");
        for ranks in &self.ranks {
            ensure!(ranks.is_power_of_two(), "the number of ranks must be a power of two, not {ranks}");
        }
        let styles = Style::all(&self.config)?;
        let mut records = Records::create(self.json.as_deref())?;
        self.print_header();
        for kernel in &self.kernels {
            for ranks in &self.ranks {
                for (style, ran) in styles.iter().zip(self.simulate(*kernel, *ranks, &styles)?) {
                    self.print_row(*kernel, *ranks, *style, &ran);
                    for record in self.records(*kernel, *ranks, *style, &ran) {
                        records.write(&record)?;
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Vertices per rank.
    fn vertices(&self, kernel: Kernel) -> u64 {
        1 << (self.scale - kernel.scale_reduction())
    }

    /// Runs each style on the same graph.
    fn simulate(&self, kernel: Kernel, ranks: u32, styles: &[Style]) -> anyhow::Result<Vec<KernelResult>> {
        let network = torus(ranks)?;
        let mut settings = parameters::settings(Some(PaperMachine::Bgp), &network)?;
        settings.work_unit_time = self.work;
        let vertices = self.vertices(kernel);
        let shrink_bits = PAPER_SCALE - self.scale;
        on_simulated_ranks(&network, &settings, |world| {
            let configs =
                styles.iter().map(|style| style.am_config(&self.config, kernel.cache_entries() >> shrink_bits));
            Ok(kernel.run(world, vertices, configs).map_err(treepie::Error::from)?)
        })
    }

    fn print_header(&self) {
        let (scale, work, config) = (self.scale, self.work, &self.config);
        say!("Weak scaling, simulated on tori with the links of a Blue Gene/P; {work} us of work per message");
        say!("  2^{scale} vertices per rank (bfs), 2^{scale} / 8 (sssp), / 2 (others); {config}; sssp: default delta");
        say!("  memory: peak for messages, maximum over ranks; out of memory above {} bytes per vertex", self.memory.0);
        say!("  cache entries per neighbor: 2^{} (bfs), 2^{} (others)", scale + 1, scale - 1);
        say!("");
        say!(
            "{:<9} {:>6} {:<10} {:>9} {:>10} {:>10} {:>10} {:>9}",
            "case",
            "ranks",
            "style",
            "ms",
            "memory KB",
            "caches KB",
            "messages",
            "combined"
        );
    }

    fn print_row(&self, kernel: Kernel, ranks: u32, style: Style, ran: &KernelResult) {
        let KernelResult { seconds, traffic } = ran;
        let combined = 100.0 * traffic.combined as f64 / (traffic.messages.max(1)) as f64;
        let out = if ran.traffic.peak_uncached_bytes > self.memory.0 as u64 * self.vertices(kernel) {
            "  out of memory"
        } else {
            ""
        };
        say!(
            "{:<9} {ranks:>6} {:<10} {:>9} {:>10} {:>10} {:>10} {combined:>8.1}%{out}",
            kernel.name(),
            style.name(),
            format_number(1e3 * seconds),
            format_number(ran.traffic.peak_uncached_bytes as f64 / 1e3),
            format_number(traffic.peak_cache_bytes as f64 / 1e3),
            traffic.messages
        );
    }

    /// The records of time and memory.
    fn records(&self, kernel: Kernel, ranks: u32, style: Style, ran: &KernelResult) -> [Record; 2] {
        let record = |what: &str, value: f64, unit: &str| {
            let case = format!("bench/weak/{}/{}/{what}", kernel.name(), style.name());
            Record::simulated(case, ranks, value, unit, format!("torus, {}", PaperMachine::Bgp))
        };
        [record("time", 1e3 * ran.seconds, "ms"), record("memory", ran.traffic.peak_uncached_bytes as f64, "B")]
    }
}

/// A three-dimensional torus with about equal sides.
fn torus(ranks: u32) -> anyhow::Result<Network> {
    let bits = ranks.trailing_zeros();
    let side = |dimension: u32| 1 << ((bits + 2 - dimension) / 3);
    let name = format!("torus:{}x{}x{}", side(0), side(1), side(2));
    name.parse().with_context(|| format!("network {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weak(scale: u32) -> WeakScaling {
        // With few vertices, large coalescing buffers would dominate the memory.
        let config = "coalescing=64,routing=rook".to_owned();
        let (ranks, kernels, json) = (Vec::new(), Vec::new(), None);
        WeakScaling { ranks, kernels, scale, work: 0.1, config, memory: "384".parse().unwrap(), json }
    }

    fn run(weak: &WeakScaling, kernel: Kernel, ranks: u32) -> [KernelResult; 4] {
        let styles = Style::all(&weak.config).unwrap();
        weak.simulate(kernel, ranks, &styles).unwrap().try_into().expect("one for each style")
    }

    /// Row G03 of the active messages paper: BSP runs out of memory first.
    #[test]
    fn bsp_needs_more_memory_or_time() {
        for kernel in [Kernel::Bfs, Kernel::Hooking, Kernel::Pagerank] {
            let [am, _, bsp, _] = run(&weak(8), kernel, 16);
            assert!(
                bsp.traffic.peak_uncached_bytes * 2 > am.traffic.peak_uncached_bytes * 3,
                "{kernel:?}: {} and {}",
                bsp.traffic.peak_uncached_bytes,
                am.traffic.peak_uncached_bytes
            );
        }
        // With long dependency chains, BSP takes longer.
        for kernel in [Kernel::Sssp, Kernel::SearchAndHooking] {
            let [am, _, bsp, _] = run(&weak(8), kernel, 16);
            assert!(bsp.seconds > 1.2 * am.seconds, "{kernel:?}: {} and {}", bsp.seconds, am.seconds);
        }
    }

    #[test]
    fn a_search_before_hooking_pays() {
        let [sv, ps] = [Kernel::Hooking, Kernel::SearchAndHooking].map(|kernel| run(&weak(8), kernel, 32));
        assert!(sv.iter().zip(&ps).all(|(sv, ps)| sv.seconds > 2.0 * ps.seconds), "{sv:?} {ps:?}");
    }

    #[test]
    fn reductions_help_less_among_more_ranks() {
        let helps = |ranks| {
            let [am, cached, ..] = run(&weak(9), Kernel::Bfs, ranks);
            assert!(cached.traffic.combined > 0 && cached.traffic.peak_cache_bytes > 0 && am.traffic.combined == 0);
            am.seconds / cached.seconds
        };
        let [few, many] = [8, 64].map(helps);
        assert!(few > 1.05 && many < few, "{few} among few, {many} among many");
    }

    #[test]
    fn tori_have_all_ranks() {
        for bits in 0..=12 {
            assert_eq!(torus(1 << bits).unwrap().ranks(), 1 << bits);
        }
        assert_eq!(torus(128).unwrap().to_string(), "torus:8x4x4");
    }
}
