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

/// Engines whose ranks share their rings, on one machine, and the same behind emulated links.
const ALIKE: [[&str; 2]; 2] = [["shm", "threads"], ["emulated shm", "emulated threads"]];

/// What the engine of a profile starts with if links between the ranks were emulated.
const EMULATED: &str = "emulated ";

impl Profile {
    /// The engine of profiles that are measured over emulated links on this one.
    pub fn emulated_engine(engine: &str) -> String {
        format!("{EMULATED}{engine}")
    }

    /// Whether it fits `ranks` ranks on an engine; `cores` are those of the machine, or 0 if the ranks are on several,
    /// and `processor` is its name, if it is known.
    ///
    /// Messages of another engine cost something else, but for processes and threads, which share their rings. So do those
    /// over [emulated](Self::emulated_engine) links. Another
    /// number of cores, or another processor, is another machine. Another number of ranks has other groups.
    pub fn fits(&self, engine: &str, ranks: u32, cores: u32, processor: &str) -> Fit {
        let origin = &self.origin;
        let are_alike = ALIKE.iter().any(|alike| [&origin.engine, engine].iter().all(|one| alike.contains(one)));
        if origin.engine != engine && !are_alike {
            let what = format!("the profile is that of the engine {}, and these ranks use {engine}", origin.engine);
            let command =
                if engine.starts_with(EMULATED) { "`treepie tune --emulate LINKS`" } else { "`treepie tune`" };
            return Fit::Refused(format!("{what}; {command} measures one"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_with_and_without_emulated_links_are_not_taken_for_one_another() {
        let mut profile = Profile::shared_memory();
        let refusal = |profile: &Profile, engine: &str| match profile.fits(engine, 2, 0, "") {
            Fit::Refused(why) => why,
            fit => panic!("{fit:?}"),
        };
        let why = refusal(&profile, &Profile::emulated_engine("shm"));
        assert!(
            why.ends_with("and these ranks use emulated shm; `treepie tune --emulate LINKS` measures one"),
            "{why}"
        );
        profile.origin.engine = Profile::emulated_engine("shm");
        let why = refusal(&profile, "shm");
        assert!(why.ends_with("engine emulated shm, and these ranks use shm; `treepie tune` measures one"), "{why}");
        assert_eq!(profile.fits("emulated shm", 2, 0, ""), Fit::Exact);
        assert!(matches!(profile.fits("emulated threads", 2, 0, ""), Fit::Adapted(_)));
    }
}
