//! Whether a profile describes the ranks of a world, and what can be kept of it for others.

use super::Profile;

/// How well a profile fits a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It was measured with such ranks, or is a default.
    Exact,
    /// [`Profile::adapted_to`] makes it usable; the message says what differs.
    Adapted(String),
    /// It is that of another machine or engine; the message says what to do.
    Refused(String),
}

/// Engines whose ranks are all on one machine.
const ON_ONE_MACHINE: [&str; 2] = ["shm", "threads"];

impl Profile {
    /// Whether it fits `ranks` ranks on an engine; `cores` are those of the machine, or 0 if the ranks are on several,
    /// and `processor` is its name, if it is known.
    ///
    /// Messages of another engine cost something else, but for processes and threads, which share their rings. Another
    /// number of cores, or another processor, is another machine. Another number of ranks has other groups.
    pub fn fits(&self, engine: &str, ranks: u32, cores: u32, processor: &str) -> Fit {
        let origin = &self.origin;
        let on_one_machine = |engine: &str| ON_ONE_MACHINE.contains(&engine);
        if origin.engine != engine && !(on_one_machine(&origin.engine) && on_one_machine(engine)) {
            let what = format!("the profile is that of the engine {}, and these ranks use {engine}", origin.engine);
            return Fit::Refused(format!("{what}; `treepie tune` measures one"));
        }
        if origin.cores != 0 && cores != 0 && origin.cores != cores {
            let what =
                format!("the profile is that of a machine with {} cores, and this one has {cores}", origin.cores);
            return Fit::Refused(format!("{what}; `treepie tune` measures one"));
        }
        let is_known = origin.cores != 0 && cores != 0 && !origin.machine.is_empty();
        if is_known && !origin.machine.contains(processor) {
            let what = format!("the profile is that of {}, and this is {processor}", origin.machine);
            return Fit::Refused(format!("{what}; `treepie tune` measures one"));
        }
        let mut differences = Vec::new();
        if origin.engine != engine {
            differences.push(format!("on the engine {} instead of {engine}", origin.engine));
        }
        if origin.ranks != 0 && origin.ranks != ranks {
            differences.push(format!("with {} ranks instead of {ranks}", origin.ranks));
        }
        match differences.as_slice() {
            [] => Fit::Exact,
            _ => Fit::Adapted(format!("the profile was measured {}", differences.join(" and "))),
        }
    }

    /// The same for another number of ranks. Groups of one size are continued. Otherwise the places of the ranks are
    /// unknown, and all of them may be as far from each other as ranks get: only the last level stays.
    #[must_use]
    pub fn adapted_to(&self, ranks: u32) -> Self {
        let mut adapted = self.clone();
        if self.origin.ranks != ranks {
            adapted.host_collectives.clear();
        }
        if self.origin.ranks == ranks || self.levels.iter().all(|level| level.groups.is_empty()) {
            return adapted;
        }
        let size_of = |groups: &[u32]| groups.first().copied().filter(|size| groups.iter().all(|other| other == size));
        let is_regular = self.rank_order.is_empty()
            && self.levels.iter().all(|level| level.groups.is_empty() || size_of(&level.groups).is_some());
        if !is_regular {
            adapted.rank_order.clear();
            adapted.levels.drain(..self.levels.len() - 1);
        }
        for level in &mut adapted.levels {
            let Some(size) = size_of(&level.groups).filter(|size| is_regular && *size < ranks) else {
                level.groups.clear();
                continue;
            };
            let last = ranks % size;
            level.groups = vec![size; (ranks / size) as usize];
            level.groups.extend((last > 0).then_some(last));
        }
        adapted.origin.ranks = ranks;
        adapted
    }
}
