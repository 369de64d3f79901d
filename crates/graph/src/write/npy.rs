//! The NumPy array format, version 1.0: a magic string, the length of the header, the header, and the values.
//!
//! The header is a Python dictionary, padded with blanks so that values begin at a multiple of 64 bytes.

use std::io::{self, Write};

use super::{Column, Values};
use crate::{Error, Result};

/// Bytes of the magic string, the version and the length of the header.
const PREFIX: usize = 10;

/// Refuses files without columns.
pub(super) fn check(columns: &[Column]) -> Result<()> {
    if columns.is_empty() {
        return Err(Error::Input("a NumPy file has at least one column".to_owned()));
    }
    Ok(())
}

fn type_name(values: &Values) -> &'static str {
    match values {
        Values::U32(_) => "<u4",
        Values::U64(_) => "<u8",
        Values::I64(_) => "<i8",
        Values::F32(_) => "<f4",
        Values::F64(_) => "<f8",
    }
}

/// Writes columns; those of different types as floating-point numbers of 64 bits.
pub(super) fn write(out: &mut dyn Write, order: &[usize], columns: &[Column]) -> io::Result<()> {
    let name = type_name(&columns[0].values);
    let is_mixed = columns.iter().any(|column| type_name(&column.values) != name);
    out.write_all(&header(if is_mixed { "<f8" } else { name }, order.len(), columns.len()))?;
    order.iter().try_for_each(|index| {
        columns.iter().try_for_each(|column| match &column.values {
            values if is_mixed => out.write_all(&as_f64(values, *index).to_le_bytes()),
            Values::U32(values) => out.write_all(&values[*index].to_le_bytes()),
            Values::U64(values) => out.write_all(&values[*index].to_le_bytes()),
            Values::I64(values) => out.write_all(&values[*index].to_le_bytes()),
            Values::F32(values) => out.write_all(&values[*index].to_le_bytes()),
            Values::F64(values) => out.write_all(&values[*index].to_le_bytes()),
        })
    })
}

fn as_f64(values: &Values, index: usize) -> f64 {
    match values {
        Values::U32(values) => values[index].into(),
        Values::U64(values) => values[index] as f64,
        Values::I64(values) => values[index] as f64,
        Values::F32(values) => values[index].into(),
        Values::F64(values) => values[index],
    }
}

fn header(kind: &str, rows: usize, columns: usize) -> Vec<u8> {
    // One column is an array of one dimension.
    let columns = if columns == 1 { String::new() } else { format!(" {columns}") };
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows},{columns}), }}");
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
        write(&mut out, &[1, 0], &[column]).expect("memory");
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
            write(&mut out, &[0, 1, 2], &[Column { name: String::new(), values }]).expect("memory");
            assert_eq!(out.len(), 128 + 3 * size);
            assert!(String::from_utf8_lossy(&out).contains(kind));
        }
    }

    #[test]
    fn headers_fill_up_to_64_bytes() {
        for digits in 0..20 {
            let header = header("<u4", 10_usize.pow(digits), 1 + digits as usize);
            assert_eq!((header.len() % 64, header.last()), (0, Some(&b'\n')));
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + PREFIX, header.len());
        }
    }

    #[test]
    fn several_columns_are_a_row_for_each_vertex() {
        let column = |name: &str, values| Column { name: name.to_owned(), values: Values::U32(values) };
        let columns = [column("x", vec![5, 6, 7]), column("y", vec![8, 9, 10])];
        assert_eq!(check(&columns), Ok(()));
        let mut out = Vec::new();
        write(&mut out, &[2, 0, 1], &columns).expect("memory");
        assert!(String::from_utf8_lossy(&out).contains("'shape': (3, 2), }"));
        let values: Vec<u32> = out[128..].chunks(4).map(|value| u32::from(value[0])).collect();
        assert_eq!(values, [7, 10, 5, 8, 6, 9]);
    }

    #[test]
    fn columns_of_different_types_are_floating_point_numbers() {
        let columns = [Values::U64(vec![3]), Values::F64(vec![0.5])].map(|values| Column { name: "x".into(), values });
        assert_eq!(check(&columns), Ok(()));
        let mut out = Vec::new();
        write(&mut out, &[0], &columns).expect("memory");
        assert_eq!(out[128..], [3.0_f64.to_le_bytes(), 0.5_f64.to_le_bytes()].concat());
        assert!(String::from_utf8_lossy(&out).contains("<f8"));
        assert_eq!(check(&[]).expect_err("none").to_string(), "a NumPy file has at least one column");
    }
}
