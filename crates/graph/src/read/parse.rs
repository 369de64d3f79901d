//! Tokens of a line, and the numbers in them. Parsing works on bytes: a line has about ten of them, so the cost per
//! line matters.

use std::borrow::Cow;

/// A parsed value, or the error message.
pub(super) type ParseResult<T> = Result<T, String>;

/// The largest vertex id. `u64::MAX` is left for "none".
const MAX_VERTEX_ID: u64 = u64::MAX - 1;

/// Tokens of a line, separated by blanks.
#[derive(Clone)]
pub(super) struct Tokens<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = skip_blanks(self.0);
        let length = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }
}

/// Spaces, tabs, and the carriage returns of CRLF line ends.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

#[inline]
pub(super) fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().position(|byte| !is_blank(*byte)).unwrap_or(bytes.len());
    &bytes[blanks..]
}

/// A token, quoted for error messages.
pub(super) fn quoted(token: &[u8]) -> Cow<'static, str> {
    const MAX_SHOWN: usize = 40;
    let start = token[..token.len().min(MAX_SHOWN)].escape_ascii();
    Cow::Owned(if token.len() > MAX_SHOWN { format!("`{start}...`") } else { format!("`{start}`") })
}

/// Why a token is not an integer.
enum IntegerError {
    InvalidDigit,
    Overflow,
}

#[inline]
fn parse_digits(token: &[u8]) -> Result<u64, IntegerError> {
    let mut number = 0_u64;
    // All numbers of 19 digits are below 2^64.
    let (safe, rest) = token.split_at(token.len().min(19));
    for byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(IntegerError::InvalidDigit);
        }
        number = number * 10 + u64::from(digit);
    }
    if !rest.iter().all(u8::is_ascii_digit) || token.is_empty() {
        return Err(IntegerError::InvalidDigit);
    }
    for byte in rest {
        let longer = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(byte - b'0')));
        number = longer.ok_or(IntegerError::Overflow)?;
    }
    Ok(number)
}

/// Parses a vertex id.
#[inline]
pub(super) fn parse_vertex(token: &[u8]) -> ParseResult<u64> {
    match parse_digits(token) {
        Ok(number) if number <= MAX_VERTEX_ID => Ok(number),
        Ok(_) | Err(IntegerError::Overflow) => {
            Err(format!("vertex {} is too big: at most {MAX_VERTEX_ID}", quoted(token)))
        }
        Err(IntegerError::InvalidDigit) => Err(format!("{} is no vertex: expected a whole number", quoted(token))),
    }
}

/// Parses a vertex of a format that counts them from 1; there are `count`.
#[inline]
pub(super) fn parse_one_based_vertex(token: &[u8], count: u64) -> ParseResult<u64> {
    match parse_vertex(token)? {
        0 => Err("vertex 0, but vertices of this format are counted from 1".into()),
        number if number > count => Err(format!("vertex {number}, but there are {count}")),
        number => Ok(number),
    }
}

/// Parses a number of things.
pub(super) fn parse_count(token: &[u8], of: &str) -> ParseResult<u64> {
    match parse_digits(token) {
        Ok(number) if number <= MAX_VERTEX_ID => Ok(number),
        Ok(_) | Err(IntegerError::Overflow) => {
            Err(format!("{} {of} are too many: at most {MAX_VERTEX_ID}", quoted(token)))
        }
        Err(IntegerError::InvalidDigit) => Err(format!("{} is no number of {of}", quoted(token))),
    }
}

/// Parses the number of a part, counted from 0.
pub(super) fn parse_partition_number(token: &[u8]) -> ParseResult<u64> {
    match parse_digits(token) {
        Ok(number) => Ok(number),
        Err(IntegerError::Overflow) => Err(format!("part {} is too big: at most {}", quoted(token), u64::MAX)),
        Err(IntegerError::InvalidDigit) => match token.strip_prefix(b"-").map(parse_digits) {
            Some(Ok(_) | Err(IntegerError::Overflow)) => Err(format!("part {} is negative", quoted(token))),
            _ => Err(format!("{} is no part: expected a whole number", quoted(token))),
        },
    }
}

/// Parses an integer weight, from 0 to 2^32-1.
#[inline]
pub(super) fn parse_integer_weight(token: &[u8]) -> ParseResult<f64> {
    match parse_digits(token) {
        Ok(number) if number <= u64::from(u32::MAX) => Ok(number as f64),
        Ok(_) | Err(IntegerError::Overflow) => {
            Err(format!("weight {} is too big: at most {}", quoted(token), u32::MAX))
        }
        Err(IntegerError::InvalidDigit) => match token.strip_prefix(b"-").map(parse_digits) {
            Some(Ok(0)) => Ok(0.0),
            Some(Ok(_) | Err(IntegerError::Overflow)) => Err(format!("weight {} is negative", quoted(token))),
            _ => Err(format!("{} is no weight: expected a whole number", quoted(token))),
        },
    }
}

/// Parses a decimal weight, finite and non-negative.
#[inline]
pub(super) fn parse_real_weight(token: &[u8]) -> ParseResult<f64> {
    let (is_negative, number) = match token {
        [b'-', number @ ..] => (true, number),
        [b'+', number @ ..] => (false, number),
        number => (false, number),
    };
    match parse_decimal(number) {
        None => Err(format!("{} is no weight: expected a decimal number", quoted(token))),
        Some(value) if is_negative && value > 0.0 => Err(format!("weight {} is negative", quoted(token))),
        Some(value) if value.is_infinite() => Err(format!("weight {} is too big", quoted(token))),
        Some(value) => Ok(value),
    }
}

/// Powers of ten that `f64` represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Parses decimal digits, with an optional point and exponent, to the nearest number.
///
/// If both the digits and the power of ten are exact, one multiplication or division rounds once, and so to nearest
/// (Clinger, How to read floating point numbers accurately, 1990). That is nearly always so; the standard library
/// parses the rest.
fn parse_decimal(token: &[u8]) -> Option<f64> {
    let (mut mantissa, mut digits, mut exponent, mut has_point) = (0_u64, 0_usize, 0_i64, false);
    let mut bytes = token.iter();
    for byte in bytes.by_ref() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                digits += 1;
                exponent -= i64::from(has_point);
            }
            b'.' if !has_point => has_point = true,
            b'e' | b'E' => {
                exponent = exponent.saturating_add(parse_exponent(bytes.as_slice())?);
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
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// Parses what follows the `e`.
fn parse_exponent(token: &[u8]) -> Option<i64> {
    let (sign, token) = match token {
        [b'-', token @ ..] => (-1, token),
        [b'+', token @ ..] => (1, token),
        token => (1, token),
    };
    match parse_digits(token) {
        Ok(number) => Some(sign * i64::try_from(number).unwrap_or(i64::MAX)),
        Err(IntegerError::Overflow) => Some(sign * i64::MAX),
        Err(IntegerError::InvalidDigit) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_is_between_blanks() {
        let tokens = |line: &'static str| Tokens(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(tokens(" \ta  bc\td\r"), [&b"a"[..], b"bc", b"d"]);
        assert!(tokens("").is_empty() && tokens(" \t\r").is_empty());
    }

    #[test]
    fn vertices_up_to_two_less_than_two_to_the_64() {
        for number in [0, 9, 1 << 33, 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, u64::MAX - 1] {
            assert_eq!(parse_vertex(number.to_string().as_bytes()), Ok(number));
        }
        assert_eq!(parse_vertex(b"00000000000000000000000000012"), Ok(12));
        for big in ["18446744073709551615", "18446744073709551616", "99999999999999999999", "184467440737095516140"] {
            let message = format!("vertex `{big}` is too big: at most 18446744073709551614");
            assert_eq!(parse_vertex(big.as_bytes()), Err(message));
        }
        for garbage in ["", "x", "-1", "+1", "1.0", "1e3", "0x10", "1234567890123456789x", "99999999999999999999999x"] {
            let message = format!("`{garbage}` is no vertex: expected a whole number");
            assert_eq!(parse_vertex(garbage.as_bytes()), Err(message));
        }
        let message = r"`\xff\x00` is no vertex: expected a whole number";
        assert_eq!(parse_vertex(b"\xff\0"), Err(message.to_string()));
    }

    #[test]
    fn long_words_are_cut_in_messages() {
        assert_eq!(quoted(&[b'x'; 41]), format!("`{}...`", "x".repeat(40)));
        assert_eq!(quoted(&[b'x'; 40]), format!("`{}`", "x".repeat(40)));
    }

    #[test]
    fn counted_vertices_are_one_less() {
        assert_eq!((parse_one_based_vertex(b"1", 5), parse_one_based_vertex(b"5", 5)), (Ok(1), Ok(5)));
        assert_eq!(parse_one_based_vertex(b"6", 5), Err("vertex 6, but there are 5".into()));
        assert_eq!(
            parse_one_based_vertex(b"0", 5),
            Err("vertex 0, but vertices of this format are counted from 1".into())
        );
    }

    #[test]
    fn weights_are_what_the_library_reads() {
        let texts = "0 1 1. .5 0.1 3.25 123456.789 9007199254740991 9007199254740993 18446744073709551617 0.3e1 1e22 \
            63715520512183323e2 1e23 1e-22 1e-23 1.7976931348623157e308 5e-324 1e-400 2.2250738585072011e-308 \
            00000000000000000000000001.5 0.000000000000000000000000000000000000001 6.02214076E+23 \
            1e-99999999999999999999999 0e99999999999999999999";
        for text in texts.split(' ').filter(|text| !text.is_empty()) {
            let expected: f64 = text.parse().expect("a number");
            assert_eq!(parse_real_weight(text.as_bytes()).map(f64::to_bits), Ok(expected.to_bits()), "{text}");
            assert_eq!(parse_real_weight(format!("+{text}").as_bytes()), Ok(expected));
        }
        assert_eq!(parse_real_weight(b"-0.0").map(f64::to_bits), Ok(0));
    }

    #[test]
    fn weights_that_are_refused() {
        for garbage in
            ["", ".", "nan", "NaN", "inf", "-inf", "infinity", "1e", "1e+", "e5", "1.2.3", "0x1p3", "1_0", "+-1", "--1"]
        {
            let message = format!("`{garbage}` is no weight: expected a decimal number");
            assert_eq!(parse_real_weight(garbage.as_bytes()), Err(message));
        }
        assert_eq!(parse_real_weight(b"1e309"), Err("weight `1e309` is too big".into()));
        assert_eq!(parse_real_weight(b"-1e-3"), Err("weight `-1e-3` is negative".into()));
    }

    #[test]
    fn whole_weights_have_32_bits() {
        assert_eq!((parse_integer_weight(b"0"), parse_integer_weight(b"-0")), (Ok(0.0), Ok(0.0)));
        assert_eq!(parse_integer_weight(b"4294967295"), Ok(4294967295.0));
        assert_eq!(
            parse_integer_weight(b"4294967296"),
            Err("weight `4294967296` is too big: at most 4294967295".into())
        );
        assert_eq!(parse_integer_weight(b"-7"), Err("weight `-7` is negative".into()));
        assert_eq!(parse_integer_weight(b"1.5"), Err("`1.5` is no weight: expected a whole number".into()));
        assert_eq!(parse_integer_weight(b"-"), Err("`-` is no weight: expected a whole number".into()));
    }
}
