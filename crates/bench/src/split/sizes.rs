//! Sizes on the command line: 8M, or 8M..128M, doubling.

use std::fmt;
use std::str::FromStr;

use treepie_base::units::parse_number;

/// A range of powers of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    first: u32,
    last: u32,
}

impl Sizes {
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first.ilog2()..=self.last.ilog2()).map(|power| 1 << power)
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (parse_size(first)?, parse_size(last)?);
        if first > last {
            return Err(format!("{} is larger than {}: give the smaller size first", Size(first), Size(last)));
        }
        Ok(Self { first, last })
    }
}

/// The largest: ranks have 31 bits.
const MAX_SIZE: u64 = 1 << 30;

fn parse_size(text: &str) -> Result<u32, String> {
    match parse_number(text) {
        Some(number) if number.is_power_of_two() && (2..=MAX_SIZE).contains(&number) => Ok(number as u32),
        _ => {
            Err("sizes are powers of two from 2 to 1024M, e.g. 8M or 8M..128M, where k is 2^10 and M is 2^20"
                .to_owned())
        }
    }
}

/// A size, for display.
#[derive(Clone, Copy)]
pub(super) struct Size(pub(super) u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{}M", n >> 20),
            n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{}k", n >> 10),
            n => n.to_string(),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.iter().collect::<Vec<_>>());
        assert_eq!(sizes("8M..32M"), Ok(vec![8 << 20, 16 << 20, 32 << 20]));
        assert_eq!((sizes("2..4"), sizes("1k")), (Ok(vec![2, 4]), Ok(vec![1024])));
        for bad in ["", "M", "3", "1", "0", "8M..", "..8", "8M..4M", "2048M", "99999999999999999999M", "8G", "-8"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
        assert_eq!([64 << 20, 2048, 64].map(|size| Size(size).to_string()), ["64M", "2k", "64"]);
    }
}
