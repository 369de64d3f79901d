//! The paper's refinements of the exchange, as switches.   [RandomAccess paper, section 4, table 3]

use std::fmt;
use std::str::FromStr;

use treepie_base::Error;

/// Refinements of the synchronous algorithms, each on or off. As text: `prepost,late-wait`, `mod3` or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refinements {
    /// Receives of all stages are posted before the first one (Mod1).
    pub prepost: bool,
    /// Local updates, too, wait until all messages have arrived (Mod2).
    pub deferred: bool,
    /// A stage divides what a rank has before it waits for the messages of the stage before (Mod3).
    pub late_wait: bool,
    /// Sends are nonblocking, with two buffers (Mod6 and Mod7).
    pub double_buffer: bool,
    /// Receives are persistent requests.
    pub persistent: bool,
    /// Beyond the paper: a round of half of the look-ahead is generated and sent before the updates of the one before.
    pub overlap: bool,
    /// Beyond the paper: the first rounds try look-aheads up to the largest, and whether to overlap; the fastest is used.
    pub adaptive: bool,
    /// Of what a rank receives in a round, what exceeds the look-ahead is discarded.
    pub discard: bool,
}

/// A switch.
type Switch = fn(&mut Refinements) -> &mut bool;

/// Names of the switches.
const SWITCHES: [(&str, Switch); 8] = [
    ("prepost", |refinements| &mut refinements.prepost),
    ("deferred", |refinements| &mut refinements.deferred),
    ("late-wait", |refinements| &mut refinements.late_wait),
    ("double-buffer", |refinements| &mut refinements.double_buffer),
    ("persistent", |refinements| &mut refinements.persistent),
    ("overlap", |refinements| &mut refinements.overlap),
    ("adaptive", |refinements| &mut refinements.adaptive),
    ("discard", |refinements| &mut refinements.discard),
];

impl Refinements {
    /// The columns of table 3. Mod4 and Mod5 change the MPI library: another version, and no copy of short messages at the
    /// sender. Mod6 and Mod7 are nonblocking sends without and with the latter.
    pub const TABLE_3: [(&str, Self); 8] = {
        const NONE: Refinements = Refinements {
            prepost: false,
            deferred: false,
            late_wait: false,
            double_buffer: false,
            persistent: false,
            overlap: false,
            adaptive: false,
            discard: false,
        };
        const MOD1: Refinements = Refinements { prepost: true, ..NONE };
        const MOD2: Refinements = Refinements { deferred: true, ..MOD1 };
        const MOD3: Refinements = Refinements { late_wait: true, ..MOD2 };
        const MOD6: Refinements = Refinements { double_buffer: true, ..MOD3 };
        [
            ("original", NONE),
            ("mod1", MOD1),
            ("mod2", MOD2),
            ("mod3", MOD3),
            ("mod4", MOD3),
            ("mod5", MOD3),
            ("mod6", MOD6),
            ("mod7", MOD6),
        ]
    };

    /// Those of table 3 that are switches here, in its order, and then those beyond it, each with all of table 3.
    pub fn measurable() -> Vec<Self> {
        let mut all: Vec<Self> = Self::TABLE_3.into_iter().map(|(_, refinements)| refinements).collect();
        all.dedup();
        let last = *all.last().expect("the table has columns");
        all.push(Self { persistent: true, ..last });
        all.push(Self { overlap: true, ..last });
        all.push(Self { adaptive: true, ..last });
        all
    }
}

impl fmt::Display for Refinements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        let on: Vec<&str> = SWITCHES.iter().filter(|(_, switch)| *switch(&mut copy)).map(|(name, _)| *name).collect();
        if on.is_empty() { f.write_str("none") } else { f.write_str(&on.join(",")) }
    }
}

impl FromStr for Refinements {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut refinements = Self::default();
        for name in text.split(',').filter(|name| !matches!(*name, "" | "none")) {
            if matches!(name, "mod4" | "mod5") {
                return Err(Error::Algorithm(format!("{name} is a change of the MPI library, not a refinement here")));
            }
            if let Some((_, column)) = Self::TABLE_3.iter().find(|(column, _)| *column == name) {
                for (_, switch) in SWITCHES {
                    *switch(&mut refinements) |= *switch(&mut { *column });
                }
            } else if let Some((_, switch)) = SWITCHES.iter().find(|(known, _)| *known == name) {
                *switch(&mut refinements) = true;
            } else {
                let known: Vec<&str> = SWITCHES.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                return Err(Error::Algorithm(format!(
                    "there is no refinement `{name}`; there are {known}, mod1 to mod7"
                )));
            }
        }
        Ok(refinements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for text in ["none", "prepost", "prepost,deferred,late-wait,double-buffer,persistent,overlap,adaptive,discard"]
        {
            assert_eq!(text.parse::<Refinements>().unwrap().to_string(), text);
        }
        assert_eq!("mod3".parse::<Refinements>().unwrap().to_string(), "prepost,deferred,late-wait");
        assert_eq!("mod1,discard".parse::<Refinements>().unwrap().to_string(), "prepost,discard");
        assert!("mod4".parse::<Refinements>().is_err());
        assert!("mod8".parse::<Refinements>().unwrap_err().to_string().contains("`mod8`"));
    }
}
