//! Families of protocols: the names by which errors, handles and the environment know them, and their numbers in
//! messages.
//!
//! Each crate that runs protocols declares a family, and whoever starts a world registers those of all crates. The
//! number of a protocol follows from the place of its family, so it is the same on all ranks, whatever they have run.

use std::sync::OnceLock;

/// The protocols of a crate.
#[derive(Debug)]
pub struct ProtocolFamily {
    /// Its place in the space of operation numbers, below 6. No other family has it.
    pub place: usize,
    /// Names and descriptions, at most 16. A name with a slash is an id, which handles and the environment can choose.
    pub protocols: &'static [(&'static str, &'static str)],
}

/// Numbers of a family. The first ones belong to collective operations.
pub(crate) const FAMILY_SIZE: usize = 16;

static FAMILIES: [OnceLock<&ProtocolFamily>; 6] = [const { OnceLock::new() }; 6];

impl ProtocolFamily {
    /// Makes the family known in this process.
    ///
    /// # Panics
    /// If another family has its place, or it has too many names.
    pub fn register(&'static self) {
        let registered = *FAMILIES[self.place].get_or_init(|| self);
        assert!(std::ptr::eq(registered, self), "{self:?} has the place of {registered:?}");
        assert!(self.protocols.len() <= FAMILY_SIZE, "{self:?} has too many names");
    }

    /// The names and descriptions of all registered families.
    pub fn all_protocols() -> impl Iterator<Item = (&'static str, &'static str)> {
        FAMILIES.iter().filter_map(OnceLock::get).flat_map(|family| family.protocols).copied()
    }

    /// The number of a name.
    pub(crate) fn number_of(name: &str) -> Option<usize> {
        FAMILIES.iter().filter_map(OnceLock::get).find_map(|family| {
            let index = family.protocols.iter().position(|(known, _)| *known == name)?;
            Some((1 + family.place) * FAMILY_SIZE + index)
        })
    }

    /// The name of a number.
    pub(crate) fn name_of(number: usize) -> Option<&'static str> {
        let family = FAMILIES.get((number / FAMILY_SIZE).checked_sub(1)?)?.get()?;
        family.protocols.get(number % FAMILY_SIZE).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_and_a_place_has_one_family() {
        static FAMILY: ProtocolFamily =
            ProtocolFamily { place: 5, protocols: &[("test/one", "the first"), ("test/two", "the second")] };
        static INTRUDER: ProtocolFamily = ProtocolFamily { place: 5, protocols: &[] };
        assert_eq!(ProtocolFamily::number_of("test/two"), None);
        FAMILY.register();
        FAMILY.register();
        let number = ProtocolFamily::number_of("test/two");
        assert_eq!((number, number.and_then(ProtocolFamily::name_of)), (Some(97), Some("test/two")));
        assert_eq!((ProtocolFamily::name_of(98), ProtocolFamily::name_of(3)), (None, None));
        assert!(std::panic::catch_unwind(|| INTRUDER.register()).is_err());
    }
}
