//! Parser of numbers with unit suffixes, shared by all options and variables.

use std::str::FromStr;

/// A number of bytes: `1000`, `64K`, `64KiB`, `64KB`, `1M`, `2G`. K, M and G count by 1024, with and without `iB`; KB,
/// MB and GB count by 1000, as they do in results. Upper and lower case are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCount(pub usize);

/// Larger values could overflow sums over many ranks.
const MAX_BYTES: u64 = 1 << 40;

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = number_and_unit(text).and_then(|(number, unit)| number.checked_mul(unit_bytes(unit)?));
        let bytes = bytes.filter(|bytes| *bytes <= MAX_BYTES).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map(ByteCount).ok_or_else(|| {
            "expected a number of bytes up to 1024G, e.g. 1000, 64K or 64KiB (1024 each), 64KB (1000 each), 1M or 2G"
                .to_owned()
        })
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix('b') {
        None => (unit.as_str(), 1024),
        Some(prefix) => prefix.strip_suffix('i').map_or((prefix, 1000), |prefix| (prefix, 1024)),
    };
    // `iB` alone is not a unit.
    (unit != "ib").then(|| prefix_exponent(prefix)).flatten().map(|power| u64::pow(base, power))
}

/// A number of anything else: `1000`, `64K`, `1M` or `2G`, which count by 1024.
pub fn parse_number(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    number.checked_mul(u64::pow(1024, prefix_exponent(&unit.to_ascii_lowercase())?))
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim_start()))
}

fn prefix_exponent(prefix: &str) -> Option<u32> {
    ["", "k", "m", "g"].into_iter().zip(0..).find(|(known, _)| *known == prefix).map(|(_, power)| power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("7B", 7),
            ("64K", 65536),
            ("64k", 65536),
            ("64KiB", 65536),
            ("64kib", 65536),
            ("64KB", 64_000),
            ("64kB", 64_000),
            ("1 MiB", 1 << 20),
            ("1M", 1 << 20),
            ("1MB", 1_000_000),
            ("2G", 2 << 30),
            ("2GiB", 2 << 30),
            ("2GB", 2_000_000_000),
            ("1024G", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for bad in ["", "K", "1T", "-1", "1.5K", "99999999999999999999", "1025G", "1iB", "1KK", "1Ki", "+1", "many"] {
            assert!(bad.parse::<ByteCount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_count_by_1024() {
        assert_eq!(["3", "4k", "4K", "2M", "1G"].map(parse_number), [3, 4096, 4096, 2 << 20, 1 << 30].map(Some));
        assert_eq!(["", "4KB", "4KiB", "k", "-1", "99999999999G"].map(parse_number), [None; 6]);
    }
}
