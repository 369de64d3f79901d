//! Packed edges of Graph 500: 12 bytes each, with 48 bits for each end.
//!
//! Three little-endian numbers of 32 bits: the low halves of both ends, then 16 bits more of the first end and, above
//! those, of the second. Weights are floating-point numbers of 32 bits in a file beside it with `.weights` behind its
//! name: `x.packed` has `x.packed.weights`, and `x.packed.gz` has `x.packed.weights.gz` or `x.packed.weights`.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::source::{Source, fill};
use super::{Content, Facts};
use crate::generate::packed;
use crate::outlet::Outlet;
use crate::{Edge, Error, Orientation, Result, Weights};

/// Bytes of an edge, and of a weight.
const EDGE: usize = 12;
const WEIGHT: usize = 4;

/// So many edges are read at a time.
const BLOCK: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Packed {
    weights: Option<Source>,
}

impl Packed {
    pub(super) fn open(source: &Source) -> Result<Self> {
        let weights = weights_beside(source)?;
        let Some(length) = source.length() else { return Ok(Self { weights }) };
        if !length.is_multiple_of(EDGE as u64) {
            return Err(source.refused(format!("{length} bytes are no whole number of edges of {EDGE} bytes")));
        }
        if let Some(weights) = &weights {
            let expected = length / EDGE as u64 * WEIGHT as u64;
            // Both are plain here: nothing else was looked for.
            let found = weights.length().unwrap_or(0);
            if found != expected {
                return Err(weights.refused(format!("{found} bytes, but weights of all edges have {expected}")));
            }
        }
        Ok(Self { weights })
    }
}

/// Where the weights are, if there are any.
fn weights_beside(source: &Source) -> Result<Option<Source>> {
    let plain = if source.is_compressed() { source.file().with_extension("") } else { source.file().to_owned() };
    let with = |ending: &str| {
        let mut name = plain.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    let (beside, compressed) = (with(".weights"), with(".weights.gz"));
    match (exists(&compressed)?, exists(&beside)?) {
        (true, _) if source.is_compressed() => Source::open(&compressed).map(Some),
        (_, true) => Source::open(&beside).map(Some),
        (true, false) => {
            let why =
                "compressed weights of edges that are not: unpack them, since parts of them cannot be read".into();
            Err(Error::File { file: compressed, why })
        }
        (false, false) => Ok(None),
    }
}

fn exists(file: &Path) -> Result<bool> {
    file.try_exists().map_err(|error| Error::File { file: file.to_owned(), why: error.to_string() })
}

impl Content for Packed {
    fn facts(&self) -> Facts {
        let weights = if self.weights.is_some() { Weights::Real } else { Weights::None };
        Facts { vertices: None, orientation: Orientation::Undirected, weights: Some(weights), announced: None }
    }

    fn read(&self, source: &Source, range: Range<u64>, outlet: &mut Outlet<'_>) -> Result<()> {
        let (mut next, end) = (range.start.div_ceil(EDGE as u64), range.end.div_ceil(EDGE as u64));
        let mut reader = source.reader(next * EDGE as u64)?;
        let mut weights = match &self.weights {
            Some(source) => Some((source, source.reader(next * WEIGHT as u64)?)),
            None => None,
        };
        let mut edge_bytes = vec![0; EDGE * BLOCK];
        let mut weight_bytes = vec![0; WEIGHT * BLOCK];
        while next < end {
            let wanted = (end - next).min(BLOCK as u64) as usize;
            let read = fill(&mut reader, &mut edge_bytes[..wanted * EDGE]).map_err(|error| source.failed(&error))?;
            if !read.is_multiple_of(EDGE) {
                let what = format!("the file ends within an edge, after {} of {EDGE} bytes", read % EDGE);
                return Err(at_byte(source, (next + (read / EDGE) as u64) * EDGE as u64, what));
            }
            let edges = read / EDGE;
            if let Some((source, reader)) = &mut weights {
                let bytes = &mut weight_bytes[..edges * WEIGHT];
                let read = fill(reader, bytes).map_err(|error| source.failed(&error))?;
                if read < bytes.len() {
                    return Err(source.refused("it ends before there are weights of all edges".into()));
                }
            }
            for (place, edge) in edge_bytes[..read].chunks_exact(EDGE).enumerate() {
                let mut edge = unpack(edge);
                if let Some((source, _)) = &weights {
                    let weight = word(&weight_bytes, place);
                    edge.weight = checked(f32::from_bits(weight))
                        .map_err(|what| at_byte(source, (next + place as u64) * WEIGHT as u64, what))?;
                }
                outlet.put(edge);
            }
            next += edges as u64;
            if edges < wanted {
                break;
            }
        }
        match (&mut weights, source.length()) {
            (Some((weights, reader)), None) => refuse_more(weights, reader),
            (_, Some(length)) if next < end => {
                Err(source.refused(format!("it ended before byte {length}, where it ended when it was opened")))
            }
            _ => Ok(()),
        }
    }
}

/// How many weights there are in a compressed file is only known at its end.
fn refuse_more(weights: &Source, reader: &mut impl Read) -> Result<()> {
    match fill(reader, &mut [0]).map_err(|error| weights.failed(&error))? {
        0 => Ok(()),
        _ => Err(weights.refused("there are more weights than edges".into())),
    }
}

pub(super) fn at_byte(source: &Source, byte: u64, what: String) -> Error {
    Error::Line { file: source.file().to_owned(), line: byte, what }
}

/// A little-endian number of 32 bits of many.
#[inline]
fn word(bytes: &[u8], place: usize) -> u32 {
    let bytes = &bytes[4 * place..4 * place + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
fn unpack(bytes: &[u8]) -> Edge {
    let (from, to) = packed::unpack(bytes.try_into().expect("an edge has twelve bytes"));
    Edge::new(from, to)
}

#[inline]
pub(super) fn checked(weight: f32) -> std::result::Result<f64, String> {
    if weight.is_finite() && weight >= 0.0 {
        // Zero has a sign that nobody wants.
        return Ok(f64::from(weight).abs());
    }
    Err(format!("weight {weight} is {}", if weight.is_finite() { "negative" } else { "not finite" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_48_bits() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0xff, 0xfe];
        assert_eq!(unpack(&bytes), Edge::new(0x0b0a_0403_0201, 0xfeff_0807_0605));
        assert_eq!(unpack(&[0xff; 12]), Edge::new((1 << 48) - 1, (1 << 48) - 1));
    }

    #[test]
    fn weights_are_finite_and_not_negative() {
        assert_eq!(checked(0.1), Ok(f64::from(0.1_f32)));
        assert_eq!(checked(-0.5), Err("weight -0.5 is negative".into()));
        assert_eq!(checked(f32::NAN), Err("weight NaN is not finite".into()));
        assert_eq!(checked(f32::NEG_INFINITY), Err("weight -inf is not finite".into()));
    }
}
