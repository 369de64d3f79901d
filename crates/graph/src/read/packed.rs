//! Packed edges of Graph 500: 12 bytes each, with 48 bits for each endpoint.
//!
//! Three little-endian words of 32 bits: the low 32 bits of both endpoints, then the high 16 bits of the first and,
//! above those, of the second. Weights are `f32` in a second file with `.weights` appended to its name: `x.packed` has
//! `x.packed.weights`, and `x.packed.gz` has `x.packed.weights.gz` or `x.packed.weights`.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::compression::Compression;
use super::source::{SourceFile, read_full};
use super::{FormatReader, Metadata};
use crate::edge_batcher::EdgeBatcher;
use crate::generate::packed;
use crate::{Edge, Error, Orientation, Result, WeightKind};

/// Bytes of an edge, and of a weight.
const EDGE_BYTES: usize = 12;
const WEIGHT_BYTES: usize = 4;

/// Edges of a read.
const BLOCK_EDGES: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Packed {
    weights: Option<SourceFile>,
}

impl Packed {
    pub(super) fn open(source: &SourceFile) -> Result<Self> {
        let weights = open_weights(source)?;
        let Some(length) = source.length() else { return Ok(Self { weights }) };
        if !length.is_multiple_of(EDGE_BYTES as u64) {
            return Err(source.file_error(format!("{length} bytes are no whole number of edges of {EDGE_BYTES} bytes")));
        }
        if let Some(weights) = &weights {
            let expected = length / EDGE_BYTES as u64 * WEIGHT_BYTES as u64;
            // Both are uncompressed here: `open_weights` refuses other pairs.
            let found = weights.length().unwrap_or(0);
            if found != expected {
                return Err(weights.file_error(format!("{found} bytes, but weights of all edges have {expected}")));
            }
        }
        Ok(Self { weights })
    }
}

/// Opens the file of weights, if there is one.
fn open_weights(source: &SourceFile) -> Result<Option<SourceFile>> {
    let base = if source.is_compressed() { source.file().with_extension("") } else { source.file().to_owned() };
    let with = |suffix: &str| {
        let mut name = base.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let extension = source.compression().unwrap_or(Compression::Gzip).extension();
    let (uncompressed, compressed) = (with(".weights"), with(&format!(".weights.{extension}")));
    match (exists(&compressed)?, exists(&uncompressed)?) {
        (true, _) if source.is_compressed() => SourceFile::open(&compressed).map(Some),
        (_, true) => SourceFile::open(&uncompressed).map(Some),
        (true, false) => {
            let why =
                "compressed weights of uncompressed edges: decompress them, since parts of them cannot be read".into();
            Err(Error::File { file: compressed, why })
        }
        (false, false) => Ok(None),
    }
}

fn exists(file: &Path) -> Result<bool> {
    file.try_exists().map_err(|error| Error::File { file: file.to_owned(), why: error.to_string() })
}

impl FormatReader for Packed {
    fn metadata(&self) -> Metadata {
        let weights = if self.weights.is_some() { WeightKind::Real } else { WeightKind::None };
        let orientation = Orientation::Undirected;
        Metadata { vertices: None, first_id: 0, orientation, weights: Some(weights), declared: None }
    }

    fn read_edges(&self, source: &SourceFile, range: Range<u64>, batcher: &mut EdgeBatcher<'_>) -> Result<()> {
        let (mut next, end) = (range.start.div_ceil(EDGE_BYTES as u64), range.end.div_ceil(EDGE_BYTES as u64));
        let mut reader = source.reader(next * EDGE_BYTES as u64)?;
        let mut weights = match &self.weights {
            Some(source) => Some((source, source.reader(next * WEIGHT_BYTES as u64)?)),
            None => None,
        };
        let mut edge_bytes = vec![0; EDGE_BYTES * BLOCK_EDGES];
        let mut weight_bytes = vec![0; WEIGHT_BYTES * BLOCK_EDGES];
        while next < end {
            let wanted = (end - next).min(BLOCK_EDGES as u64) as usize;
            let read = read_full(&mut reader, &mut edge_bytes[..wanted * EDGE_BYTES])
                .map_err(|error| source.io_error(&error))?;
            if !read.is_multiple_of(EDGE_BYTES) {
                let what = format!("the file ends within an edge, after {} of {EDGE_BYTES} bytes", read % EDGE_BYTES);
                return Err(byte_error(source, (next + (read / EDGE_BYTES) as u64) * EDGE_BYTES as u64, what));
            }
            let edges = read / EDGE_BYTES;
            if let Some((source, reader)) = &mut weights {
                let bytes = &mut weight_bytes[..edges * WEIGHT_BYTES];
                let read = read_full(reader, bytes).map_err(|error| source.io_error(&error))?;
                if read < bytes.len() {
                    return Err(source.file_error("it ends before there are weights of all edges".into()));
                }
            }
            for (index, edge) in edge_bytes[..read].chunks_exact(EDGE_BYTES).enumerate() {
                let mut edge = unpack(edge);
                if let Some((source, _)) = &weights {
                    let weight = read_u32(&weight_bytes, index);
                    edge.weight = check_weight(f32::from_bits(weight))
                        .map_err(|what| byte_error(source, (next + index as u64) * WEIGHT_BYTES as u64, what))?;
                }
                batcher.push(edge);
            }
            next += edges as u64;
            if edges < wanted {
                break;
            }
        }
        match (&mut weights, source.length()) {
            (Some((weights, reader)), None) => check_weights_end(weights, reader),
            (_, Some(length)) if next < end => {
                Err(source.file_error(format!("it ends before byte {length}, where it ended when it was opened")))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses excess weights. The length of a compressed file is only known at its end.
fn check_weights_end(weights: &SourceFile, reader: &mut impl Read) -> Result<()> {
    match read_full(reader, &mut [0]).map_err(|error| weights.io_error(&error))? {
        0 => Ok(()),
        _ => Err(weights.file_error("there are more weights than edges".into())),
    }
}

pub(super) fn byte_error(source: &SourceFile, byte: u64, what: String) -> Error {
    Error::Line { file: source.file().to_owned(), line: byte, what }
}

/// Reads the little-endian `u32` at an index.
#[inline]
fn read_u32(bytes: &[u8], index: usize) -> u32 {
    let bytes = &bytes[4 * index..4 * index + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
fn unpack(bytes: &[u8]) -> Edge {
    let (from, to) = packed::unpack(bytes.try_into().expect("an edge has twelve bytes"));
    Edge::new(from, to)
}

#[inline]
pub(super) fn check_weight(weight: f32) -> std::result::Result<f64, String> {
    if weight.is_finite() && weight >= 0.0 {
        // Without the sign of a zero.
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
        assert_eq!(check_weight(0.1), Ok(f64::from(0.1_f32)));
        assert_eq!(check_weight(-0.5), Err("weight -0.5 is negative".into()));
        assert_eq!(check_weight(f32::NAN), Err("weight NaN is not finite".into()));
        assert_eq!(check_weight(f32::NEG_INFINITY), Err("weight -inf is not finite".into()));
    }
}
