//! The NumPy array format, version 1.0: a magic string, the length of the header, the header, and the values.
//!
//! The header is a Python dictionary, padded with blanks so that values begin at a multiple of 64 bytes.

use std::io::{self, Write};

use super::{Column, Values};
use crate::{Error, Result};

/// Bytes of the magic string, the version and the length of the header.
const PREFIX: usize = 10;

/// The only column, if the vertices are 0 to n-1: an array has no ids.
pub(super) fn check<'a>(ids: &[u64], order: &[usize], columns: &'a [Column]) -> Result<&'a Column> {
    let [column] = columns else {
        return Err(Error::Input(format!("a NumPy file has one column, not {}", columns.len())));
    };
    match order.iter().enumerate().find(|(vertex, index)| ids[**index] != *vertex as u64) {
        Some((vertex, index)) => {
            let (count, found) = (ids.len(), ids[*index]);
            let why =
                format!("a NumPy file has {count} vertices in order, but where {vertex} is expected there is {found}");
            Err(Error::Input(why))
        }
        None => Ok(column),
    }
}

pub(super) fn write(out: &mut dyn Write, order: &[usize], column: &Column) -> io::Result<()> {
    let kind = match &column.values {
        Values::U32(_) => "<u4",
        Values::U64(_) => "<u8",
        Values::I64(_) => "<i8",
        Values::F32(_) => "<f4",
        Values::F64(_) => "<f8",
    };
    out.write_all(&header(kind, order.len()))?;
    match &column.values {
        Values::U32(values) => order.iter().try_for_each(|index| out.write_all(&values[*index].to_le_bytes())),
        Values::U64(values) => order.iter().try_for_each(|index| out.write_all(&values[*index].to_le_bytes())),
        Values::I64(values) => order.iter().try_for_each(|index| out.write_all(&values[*index].to_le_bytes())),
        Values::F32(values) => order.iter().try_for_each(|index| out.write_all(&values[*index].to_le_bytes())),
        Values::F64(values) => order.iter().try_for_each(|index| out.write_all(&values[*index].to_le_bytes())),
    }
}

fn header(kind: &str, count: usize) -> Vec<u8> {
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}");
    // One more byte for the newline. At most 128 bytes in all, so the length fits into 16 bits.
    let length = (PREFIX + dictionary.len() + 1).next_multiple_of(64) - PREFIX;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((length as u16).to_le_bytes());
    header.extend(dictionary.as_bytes());
    header.resize(PREFIX + length - 1, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_as_numpy_writes_it() {
        let column = Column { name: "x".into(), values: Values::F64(vec![-2.0, 1.5]) };
        let mut out = Vec::new();
        write(&mut out, &[1, 0], &column).expect("memory");
        // numpy.save of numpy.array([1.5, -2.0]) has these bytes.
        let mut expected =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }".to_vec();
        expected.resize(127, b' ');
        expected.extend(b"\n\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\0\xc0");
        assert_eq!(out, expected);
    }

    #[test]
    fn all_types_have_their_size() {
        for (values, kind, size) in [
            (Values::U32(vec![1, 2, 3]), "<u4", 4),
            (Values::U64(vec![1, 2, 3]), "<u8", 8),
            (Values::I64(vec![1, 2, 3]), "<i8", 8),
            (Values::F32(vec![1.0, 2.0, 3.0]), "<f4", 4),
            (Values::F64(vec![1.0, 2.0, 3.0]), "<f8", 8),
        ] {
            let mut out = Vec::new();
            write(&mut out, &[0, 1, 2], &Column { name: String::new(), values }).expect("memory");
            assert_eq!(out.len(), 128 + 3 * size);
            assert!(String::from_utf8_lossy(&out).contains(kind));
        }
    }

    #[test]
    fn headers_fill_up_to_64_bytes() {
        for digits in 0..20 {
            let header = header("<u4", 10_usize.pow(digits));
            assert_eq!((header.len() % 64, header.last()), (0, Some(&b'\n')));
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + PREFIX, header.len());
        }
    }

    #[test]
    fn other_vertices_and_columns_are_refused() {
        let column = || Column { name: "x".into(), values: Values::U32(vec![5, 6, 7]) };
        assert_eq!(check(&[2, 0, 1], &[1, 2, 0], &[column()]).ok(), Some(&column()));
        let refused = check(&[2, 0, 3], &[1, 0, 2], &[column()]).expect_err("no vertex 1").to_string();
        assert_eq!(refused, "a NumPy file has 3 vertices in order, but where 1 is expected there is 2");
        let refused = check(&[0, 1, 2], &[0, 1, 2], &[column(), column()]).expect_err("two").to_string();
        assert_eq!(refused, "a NumPy file has one column, not 2");
    }
}
