//! Profiles as TOML files. A file that is cut off, has unknown keys or contradicts itself is refused in one line.

use std::path::Path;

use serde::Deserialize;
use treepie_schedule::Operation;
use treepie_topology::toml_file::{format_error, read_regular_file};

use super::{
    HostCollectiveTime, LevelProfile, PairFactors, Profile, ProfileOrigin, SharedSegmentCosts, SynchronousSend,
};
use crate::error::{not_negative, positive};
use crate::plogp::{PLogP, PiecewiseLinear};
use crate::{Error, Result};

/// The version of the format.
pub(super) const FORMAT: u64 = 1;

/// Maximum length of a profile: enough for the groups of a million ranks.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The version alone: other versions may have other keys.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    #[serde(rename = "format")]
    _format: u64,
    level_count: usize,
    #[serde(default)]
    rank_order: Vec<u32>,
    origin: OriginSection,
    rank: RankSection,
    synchronous_send: SynchronousSection,
    shared_segment: Option<SegmentSection>,
    #[serde(default)]
    host_collective: Vec<HostSection>,
    #[serde(default)]
    level: Vec<LevelSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginSection {
    engine: String,
    machine: String,
    ranks: u32,
    cores: u32,
    measured: String,
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RankSection {
    reduce_per_byte: f64,
    copy_per_byte: f64,
    scheduling: f64,
    barrier: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SynchronousSection {
    latency: f64,
    vanishes_at: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentSection {
    round: f64,
    size: Vec<SegmentPoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentPoint {
    bytes: f64,
    copy_in: f64,
    copy_out: f64,
    single_copy: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSection {
    operation: String,
    size: Vec<HostPoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostPoint {
    bytes: f64,
    time: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelSection {
    name: String,
    #[serde(default)]
    groups: Vec<u32>,
    latency: f64,
    window: Option<f64>,
    error: f64,
    complete: bool,
    measured_bytes: u64,
    saturating_bytes: u64,
    asymmetric: bool,
    size: Vec<SizePoint>,
    reverse_size: Option<Vec<SizePoint>>,
    #[serde(default)]
    pair_count: usize,
    #[serde(default)]
    pair: Vec<PairSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairSection {
    from: u32,
    to: u32,
    latency: f64,
    bytes: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizePoint {
    bytes: f64,
    send_overhead: f64,
    recv_overhead: f64,
    gap: f64,
}

impl Profile {
    /// Reads a profile from a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refused = |reason: String| Error::ProfileFile { path: path.display().to_string(), reason };
        let text = read_regular_file(path, MAX_FILE_BYTES).map_err(|error| refused(error.to_string()))?;
        Self::parse(&text).map_err(|error| refused(error.to_string()))
    }

    /// Parses a profile from TOML, as [`to_toml`](Self::to_toml) writes it.
    ///
    /// ```
    /// use treepie_model::Profile;
    ///
    /// let profile = Profile::shared_memory();
    /// assert_eq!(Profile::parse(&profile.to_toml())?.shared_segment, profile.shared_segment);
    /// assert!(Profile::parse("format = 2").unwrap_err().to_string().contains("format 2"));
    /// # Ok::<(), treepie_model::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |error: toml::de::Error| Error::Profile(format_error(&error, text));
        let FormatOnly { format } = toml::from_str(text).map_err(refused)?;
        if format != FORMAT {
            return Err(Error::Profile(format!("it has format {format}, and this version reads format {FORMAT}")));
        }
        let file: ProfileFile = toml::from_str(text).map_err(refused)?;
        file.into_profile()
    }
}

impl ProfileFile {
    fn into_profile(self) -> Result<Profile> {
        let Self { level_count, rank_order, origin, rank, synchronous_send, level, .. } = self;
        if level.len() != level_count || level.is_empty() {
            let found = format!("{} levels where level_count is {level_count}", level.len());
            return Err(Error::Profile(format!("{found}; there must be at least one, and the file may be cut off")));
        }
        let OriginSection { engine, machine, ranks, cores, measured, version } = origin;
        let profile = Profile {
            origin: ProfileOrigin { engine, machine, ranks, cores, measured, version },
            levels: level.into_iter().map(LevelSection::into_level).collect::<Result<_>>()?,
            rank_order,
            reduce_per_byte: rank.reduce_per_byte,
            copy_per_byte: rank.copy_per_byte,
            // Not measured: only the thesis's machine has them.
            saturated_ports: 0,
            port_efficiency: 1.0,
            scheduling: rank.scheduling,
            synchronous: SynchronousSend {
                latency: synchronous_send.latency,
                vanishes_at: synchronous_send.vanishes_at,
            },
            barrier: rank.barrier,
            shared_segment: self.shared_segment.map(SegmentSection::into_costs).transpose()?,
            host_collectives: self.host_collective.into_iter().map(HostSection::into_time).collect::<Result<_>>()?,
        };
        let names: Vec<&str> = profile.host_collectives.iter().map(|of_host| of_host.operation.as_str()).collect();
        if let Some(twice) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(Error::Profile(format!("there are two host_collectives of {}", names[twice])));
        }
        profile.check()?;
        Ok(profile)
    }
}

impl SegmentSection {
    fn into_costs(self) -> Result<SharedSegmentCosts> {
        let Self { round, size } = self;
        not_negative("round", round)?;
        Ok(SharedSegmentCosts {
            round,
            copy_in: curve("copy_in", &size, |point| (point.bytes, point.copy_in))?,
            copy_out: curve("copy_out", &size, |point| (point.bytes, point.copy_out))?,
            single_copy: curve("single_copy", &size, |point| (point.bytes, point.single_copy))?,
        })
    }
}

impl HostSection {
    fn into_time(self) -> Result<HostCollectiveTime> {
        if Operation::from_name(&self.operation, 0).is_none() {
            return Err(Error::Profile(format!("a host_collective has the unknown operation `{}`", self.operation)));
        }
        let time = curve("the time of a host_collective", &self.size, |point| (point.bytes, point.time))?;
        Ok(HostCollectiveTime { operation: self.operation, time })
    }
}

impl LevelSection {
    fn into_level(self) -> Result<LevelProfile> {
        let Self { name, groups, latency, window, error, complete, asymmetric, size, reverse_size, .. } = self;
        let (measured_bytes, saturating_bytes) = (self.measured_bytes, self.saturating_bytes);
        not_negative("the error of a level", error)?;
        not_negative("the window of a level", window.unwrap_or(0.0))?;
        if reverse_size.is_some() != asymmetric {
            let found = if asymmetric { "no reverse_size" } else { "a reverse_size" };
            return Err(Error::Profile(format!("a level has {found} where asymmetric is {asymmetric}")));
        }
        Ok(LevelProfile {
            name,
            groups,
            link: link(latency, &size)?,
            reverse: reverse_size.map(|points| link(latency, &points)).transpose()?,
            pairs: pairs(self.pair_count, self.pair)?,
            window,
            error,
            is_complete: complete,
            measured_bytes,
            saturating_bytes,
        })
    }
}

/// Links of their own, each once.
fn pairs(count: usize, sections: Vec<PairSection>) -> Result<Vec<PairFactors>> {
    if sections.len() != count {
        let found = format!("{} pairs where pair_count is {count}", sections.len());
        return Err(Error::Profile(format!("{found}; the file may be cut off")));
    }
    let mut pairs = Vec::with_capacity(sections.len());
    for PairSection { from, to, latency, bytes } in sections {
        positive("the latency of a pair", latency)?;
        positive("the bytes of a pair", bytes)?;
        pairs.push(PairFactors { from, to, latency, bytes });
    }
    pairs.sort_by_key(|pair| (pair.from, pair.to));
    match pairs.windows(2).find(|two| (two[0].from, two[0].to) == (two[1].from, two[1].to)) {
        Some(two) => Err(Error::Profile(format!("there are two pairs from {} to {}", two[0].from, two[0].to))),
        None => Ok(pairs),
    }
}

/// One curve of several that have their points together.
fn curve<P>(what: &'static str, points: &[P], value: fn(&P) -> (f64, f64)) -> Result<PiecewiseLinear> {
    let mut points: Vec<(f64, f64)> = points.iter().map(value).collect();
    // Where only another curve jumps, this one has the same point twice.
    points.dedup();
    PiecewiseLinear::new(what, &points)
}

fn link(latency: f64, points: &[SizePoint]) -> Result<PLogP> {
    PLogP::new(
        latency,
        curve("the send overhead os", points, |point| (point.bytes, point.send_overhead))?,
        curve("the receive overhead or", points, |point| (point.bytes, point.recv_overhead))?,
        curve("the gap g", points, |point| (point.bytes, point.gap))?,
    )
}

impl Profile {
    /// Refuses what contradicts itself.
    fn check(&self) -> Result<()> {
        for (what, value) in [
            ("reduce_per_byte", self.reduce_per_byte),
            ("copy_per_byte", self.copy_per_byte),
            ("scheduling", self.scheduling),
            ("barrier", self.barrier.unwrap_or(0.0)),
            ("latency of synchronous_send", self.synchronous.latency),
            // It may never vanish.
            ("vanishes_at", self.synchronous.vanishes_at.min(f64::MAX)),
        ] {
            not_negative(what, value)?;
        }
        self.check_groups()
    }

    /// Groups have all ranks, and consist of whole groups of the level below.
    fn check_groups(&self) -> Result<()> {
        let ranks = self.origin.ranks;
        let mut in_order = self.rank_order.clone();
        in_order.sort_unstable();
        if !in_order.is_empty() && !in_order.into_iter().eq(0..ranks) {
            return Err(Error::Profile(format!("rank_order is not a list of the ranks 0 to {}", ranks.max(1) - 1)));
        }
        // Ranks before each group of the level below.
        let mut below: Option<Vec<u64>> = None;
        for (index, level) in self.levels.iter().enumerate() {
            let mut total = 0;
            let starts: Vec<u64> = level
                .groups
                .iter()
                .map(|ranks| {
                    total += u64::from(*ranks);
                    total - u64::from(*ranks)
                })
                .collect();
            if !starts.is_empty() && (total != u64::from(ranks) || level.groups.contains(&0)) {
                let what = format!("the groups of level {index} have {total} ranks, each at least one");
                return Err(Error::Profile(format!("{what}, and the profile has {ranks}")));
            }
            // Starts are in increasing order, so a search per group suffices.
            let splits =
                below.as_ref().is_some_and(|below| starts.iter().any(|start| below.binary_search(start).is_err()));
            if splits {
                return Err(Error::Profile(format!("level {index} splits a group of the level below")));
            }
            below = Some(if starts.is_empty() { vec![0] } else { starts });
        }
        Ok(())
    }
}
