//! Text and CSV output.
//!
//! Floating-point numbers have the fewest digits that round-trip.

use std::borrow::Cow;
use std::io::{self, Write};

use super::{Column, Values};

/// Writes the id and the values of each vertex, separated by blanks.
pub(super) fn write(out: &mut dyn Write, ids: &[u64], order: &[usize], columns: &[Column]) -> io::Result<()> {
    write_rows(out, b' ', ids, order, columns)
}

/// Writes a header line, and the id and the values of each vertex, separated by commas.
pub(super) fn write_csv(out: &mut dyn Write, ids: &[u64], order: &[usize], columns: &[Column]) -> io::Result<()> {
    out.write_all(b"vertex")?;
    for column in columns {
        write!(out, ",{}", quoted(&column.name))?;
    }
    out.write_all(b"\n")?;
    write_rows(out, b',', ids, order, columns)
}

fn write_rows(out: &mut dyn Write, separator: u8, ids: &[u64], order: &[usize], columns: &[Column]) -> io::Result<()> {
    for &index in order {
        write!(out, "{}", ids[index])?;
        for column in columns {
            out.write_all(&[separator])?;
            match &column.values {
                Values::U32(values) => write!(out, "{}", values[index]),
                Values::U64(values) => write!(out, "{}", values[index]),
                Values::I64(values) => write!(out, "{}", values[index]),
                // Unlike `{}`, this uses an exponent instead of many zeros.
                Values::F32(values) => write!(out, "{:?}", values[index]),
                Values::F64(values) => write!(out, "{:?}", values[index]),
            }?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A name, quoted as RFC 4180 requires.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")));
    }
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let column = |name: &str, values| Column { name: name.into(), values };
        vec![
            column("a", Values::U32(vec![1, u32::MAX])),
            column("b,c", Values::U64(vec![2, u64::MAX])),
            column("\"d\"", Values::I64(vec![-3, i64::MIN])),
            column("e", Values::F32(vec![0.1, f32::INFINITY])),
            column("f", Values::F64(vec![1e300, 4.0])),
        ]
    }

    #[test]
    fn rows_are_in_order() {
        let mut out = Vec::new();
        write(&mut out, &[9, 8], &[1, 0], &columns()).expect("memory");
        let expected = "8 4294967295 18446744073709551615 -9223372036854775808 inf 4.0\n9 1 2 -3 0.1 1e300\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn names_are_quoted_if_they_have_to_be() {
        let mut out = Vec::new();
        write_csv(&mut out, &[9, 8], &[0], &columns()).expect("memory");
        assert_eq!(String::from_utf8_lossy(&out), "vertex,a,\"b,c\",\"\"\"d\"\"\",e,f\n9,1,2,-3,0.1,1e300\n");
    }
}
