//! Words of a line, and the numbers they are. Bytes are looked at by hand: a line of text is ten of them or so, and
//! whatever is done for each line counts.

use std::borrow::Cow;

/// What a line says, or what is wrong with it.
pub(super) type Parsed<T> = Result<T, String>;

/// The largest name of a vertex. One more is left for "none".
const LARGEST: u64 = u64::MAX - 1;

/// Words of a line with blanks between them.
#[derive(Clone)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = skip_blanks(self.0);
        let length = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(length);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Blanks, tabs, and the carriage returns that some systems end lines with.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

#[inline]
pub(super) fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().position(|byte| !is_blank(*byte)).unwrap_or(bytes.len());
    &bytes[blanks..]
}

/// A word as it is shown in messages.
pub(super) fn shown(word: &[u8]) -> Cow<'static, str> {
    const MOST: usize = 40;
    let start = word[..word.len().min(MOST)].escape_ascii();
    Cow::Owned(if word.len() > MOST { format!("`{start}...`") } else { format!("`{start}`") })
}

/// Why a word is no whole number.
enum NotWhole {
    Garbage,
    TooBig,
}

#[inline]
fn digits(word: &[u8]) -> Result<u64, NotWhole> {
    let mut number = 0_u64;
    // All numbers of 19 digits are below 2^64.
    let (safe, rest) = word.split_at(word.len().min(19));
    for byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NotWhole::Garbage);
        }
        number = number * 10 + u64::from(digit);
    }
    if !rest.iter().all(u8::is_ascii_digit) || word.is_empty() {
        return Err(NotWhole::Garbage);
    }
    for byte in rest {
        let longer = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(byte - b'0')));
        number = longer.ok_or(NotWhole::TooBig)?;
    }
    Ok(number)
}

/// The name of a vertex.
#[inline]
pub(super) fn vertex(word: &[u8]) -> Parsed<u64> {
    match digits(word) {
        Ok(number) if number <= LARGEST => Ok(number),
        Ok(_) | Err(NotWhole::TooBig) => Err(format!("vertex {} is too big: at most {LARGEST}", shown(word))),
        Err(NotWhole::Garbage) => Err(format!("{} is no vertex: expected a whole number", shown(word))),
    }
}

/// A vertex of so many, counted from 1 in the file and from 0 here.
#[inline]
pub(super) fn counted_vertex(word: &[u8], count: u64) -> Parsed<u64> {
    match vertex(word)? {
        0 => Err("vertex 0, but vertices of this format are counted from 1".into()),
        number if number > count => Err(format!("vertex {number}, but there are {count}")),
        number => Ok(number - 1),
    }
}

/// How many of something there are.
pub(super) fn count(word: &[u8], of: &str) -> Parsed<u64> {
    match digits(word) {
        Ok(number) if number <= LARGEST => Ok(number),
        Ok(_) | Err(NotWhole::TooBig) => Err(format!("{} {of} are too many: at most {LARGEST}", shown(word))),
        Err(NotWhole::Garbage) => Err(format!("{} is no number of {of}", shown(word))),
    }
}

/// The number of a part of a graph, counted from 0.
pub(super) fn part(word: &[u8]) -> Parsed<u64> {
    match digits(word) {
        Ok(number) => Ok(number),
        Err(NotWhole::TooBig) => Err(format!("part {} is too big: at most {}", shown(word), u64::MAX)),
        Err(NotWhole::Garbage) => match word.strip_prefix(b"-").map(digits) {
            Some(Ok(_) | Err(NotWhole::TooBig)) => Err(format!("part {} is negative", shown(word))),
            _ => Err(format!("{} is no part: expected a whole number", shown(word))),
        },
    }
}

/// A weight that is a whole number from 0 to 2^32-1.
#[inline]
pub(super) fn whole_weight(word: &[u8]) -> Parsed<f64> {
    match digits(word) {
        Ok(number) if number <= u64::from(u32::MAX) => Ok(number as f64),
        Ok(_) | Err(NotWhole::TooBig) => Err(format!("weight {} is too big: at most {}", shown(word), u32::MAX)),
        Err(NotWhole::Garbage) => match word.strip_prefix(b"-").map(digits) {
            Some(Ok(0)) => Ok(0.0),
            Some(Ok(_) | Err(NotWhole::TooBig)) => Err(format!("weight {} is negative", shown(word))),
            _ => Err(format!("{} is no weight: expected a whole number", shown(word))),
        },
    }
}

/// A weight that is a decimal number, finite and not negative.
#[inline]
pub(super) fn weight(word: &[u8]) -> Parsed<f64> {
    let (is_negative, number) = match word {
        [b'-', number @ ..] => (true, number),
        [b'+', number @ ..] => (false, number),
        number => (false, number),
    };
    match decimal(number) {
        None => Err(format!("{} is no weight: expected a decimal number", shown(word))),
        Some(value) if is_negative && value > 0.0 => Err(format!("weight {} is negative", shown(word))),
        Some(value) if value.is_infinite() => Err(format!("weight {} is too big", shown(word))),
        Some(value) => Ok(value),
    }
}

/// Powers of ten that are floating-point numbers exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The nearest number to decimal digits, perhaps with a point and an exponent.
///
/// If both the digits and the power of ten are exact, then one multiplication or division rounds once, and so to
/// nearest (Clinger, How to read floating point numbers accurately, 1990). That is nearly always so; the rest is for
/// the library.
fn decimal(word: &[u8]) -> Option<f64> {
    let (mut mantissa, mut digits, mut exponent, mut has_point) = (0_u64, 0_usize, 0_i64, false);
    let mut bytes = word.iter();
    for byte in bytes.by_ref() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                digits += 1;
                exponent -= i64::from(has_point);
            }
            b'.' if !has_point => has_point = true,
            b'e' | b'E' => {
                exponent = exponent.saturating_add(written_exponent(bytes.as_slice())?);
                break;
            }
            _ => return None,
        }
    }
    if digits == 0 {
        return None;
    }
    if digits <= 19 && mantissa < 1 << 53 && exponent.unsigned_abs() < POWERS.len() as u64 {
        let power = POWERS[exponent.unsigned_abs() as usize];
        return Some(if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power });
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// What follows the `e`.
fn written_exponent(word: &[u8]) -> Option<i64> {
    let (sign, word) = match word {
        [b'-', word @ ..] => (-1, word),
        [b'+', word @ ..] => (1, word),
        word => (1, word),
    };
    match digits(word) {
        Ok(number) => Some(sign * i64::try_from(number).unwrap_or(i64::MAX)),
        Err(NotWhole::TooBig) => Some(sign * i64::MAX),
        Err(NotWhole::Garbage) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_is_between_blanks() {
        let words = |line: &'static str| Words(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(words(" \ta  bc\td\r"), [&b"a"[..], b"bc", b"d"]);
        assert!(words("").is_empty() && words(" \t\r").is_empty());
    }

    #[test]
    fn vertices_up_to_two_less_than_two_to_the_64() {
        for number in [0, 9, 1 << 33, 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, u64::MAX - 1] {
            assert_eq!(vertex(number.to_string().as_bytes()), Ok(number));
        }
        assert_eq!(vertex(b"00000000000000000000000000012"), Ok(12));
        for big in ["18446744073709551615", "18446744073709551616", "99999999999999999999", "184467440737095516140"] {
            let message = format!("vertex `{big}` is too big: at most 18446744073709551614");
            assert_eq!(vertex(big.as_bytes()), Err(message));
        }
        for garbage in ["", "x", "-1", "+1", "1.0", "1e3", "0x10", "1234567890123456789x", "99999999999999999999999x"] {
            let message = format!("`{garbage}` is no vertex: expected a whole number");
            assert_eq!(vertex(garbage.as_bytes()), Err(message));
        }
        let message = r"`\xff\x00` is no vertex: expected a whole number";
        assert_eq!(vertex(b"\xff\0"), Err(message.to_string()));
    }

    #[test]
    fn long_words_are_cut_in_messages() {
        assert_eq!(shown(&[b'x'; 41]), format!("`{}...`", "x".repeat(40)));
        assert_eq!(shown(&[b'x'; 40]), format!("`{}`", "x".repeat(40)));
    }

    #[test]
    fn counted_vertices_are_one_less() {
        assert_eq!((counted_vertex(b"1", 5), counted_vertex(b"5", 5)), (Ok(0), Ok(4)));
        assert_eq!(counted_vertex(b"6", 5), Err("vertex 6, but there are 5".into()));
        assert_eq!(counted_vertex(b"0", 5), Err("vertex 0, but vertices of this format are counted from 1".into()));
    }

    #[test]
    fn weights_are_what_the_library_reads() {
        let texts = "0 1 1. .5 0.1 3.25 123456.789 9007199254740991 9007199254740993 18446744073709551617 0.3e1 1e22 \
            63715520512183323e2 1e23 1e-22 1e-23 1.7976931348623157e308 5e-324 1e-400 2.2250738585072011e-308 \
            00000000000000000000000001.5 0.000000000000000000000000000000000000001 6.02214076E+23 \
            1e-99999999999999999999999 0e99999999999999999999";
        for text in texts.split(' ').filter(|text| !text.is_empty()) {
            let expected: f64 = text.parse().expect("a number");
            assert_eq!(weight(text.as_bytes()).map(f64::to_bits), Ok(expected.to_bits()), "{text}");
            assert_eq!(weight(format!("+{text}").as_bytes()), Ok(expected));
        }
        assert_eq!(weight(b"-0.0").map(f64::to_bits), Ok(0));
    }

    #[test]
    fn weights_that_are_refused() {
        for garbage in
            ["", ".", "nan", "NaN", "inf", "-inf", "infinity", "1e", "1e+", "e5", "1.2.3", "0x1p3", "1_0", "+-1", "--1"]
        {
            let message = format!("`{garbage}` is no weight: expected a decimal number");
            assert_eq!(weight(garbage.as_bytes()), Err(message));
        }
        assert_eq!(weight(b"1e309"), Err("weight `1e309` is too big".into()));
        assert_eq!(weight(b"-1e-3"), Err("weight `-1e-3` is negative".into()));
    }

    #[test]
    fn whole_weights_have_32_bits() {
        assert_eq!((whole_weight(b"0"), whole_weight(b"-0")), (Ok(0.0), Ok(0.0)));
        assert_eq!(whole_weight(b"4294967295"), Ok(4294967295.0));
        assert_eq!(whole_weight(b"4294967296"), Err("weight `4294967296` is too big: at most 4294967295".into()));
        assert_eq!(whole_weight(b"-7"), Err("weight `-7` is negative".into()));
        assert_eq!(whole_weight(b"1.5"), Err("`1.5` is no weight: expected a whole number".into()));
        assert_eq!(whole_weight(b"-"), Err("`-` is no weight: expected a whole number".into()));
    }
}
