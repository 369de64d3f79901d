//! Networks as short text, as they are written on a command line.

use std::fmt;
use std::str::FromStr;

use crate::{Clos, Error, Flat, Kind, Network, Result, Torus};

/// The names that a network's text can begin with.
const KINDS: [&str; 5] = ["flat", "torus", "mesh", "clos", "clusters"];

const ANY: &str = "flat, torus:8x8x8, mesh:16x16, clos:r80,t64 or clusters:4x16";
const ANY_OR_FILE: &str = "flat, torus:8x8x8, mesh:16x16, clos:r80,t64 or clusters:4x16, or the path of a TOML file";
const FLAT: &str = "flat, or flat:64 for 64 ranks";
const TORUS: &str = "torus:8x16x32, or torus:4x4x4,wrap=yny where not every dimension wraps";
const MESH: &str = "mesh:16x16";
const CLOS: &str = "clos:r80,t64 (radix, terminals per leaf), with ,n4096 for the ranks and ,mu=0.25 as a check";
const CLUSTERS: &str = "clusters:4x16 (4 of 16), or clusters:3+5+8";
const PLACES: &str = "places such as @0-3+9 after the network";

/// A few letters must not cost gigabytes of memory: clusters and places that are listed in text stay below this.
const MOST_LISTED: u32 = 1 << 22;

/// Whether the text means a network, right or wrong, and not the path of a file.
pub(crate) fn names_a_kind(text: &str) -> bool {
    let name = text.trim().split([':', '@']).next().unwrap_or_default();
    KINDS.contains(&name)
}

/// Whether whoever wrote it probably means a file.
pub(crate) fn looks_like_a_path(text: &str) -> bool {
    text.contains('/') || text.ends_with(".toml")
}

/// The error for text that is no network, and not the path of a file either.
pub(crate) fn neither(text: &str) -> Error {
    Error::Text { text: text.to_string(), expected: ANY_OR_FILE }
}

/// Reads `flat`, `flat:64`, `torus:8x16x32`, `torus:4x4x4,wrap=yny`, `mesh:16x16`, `clos:r80,t64`,
/// `clos:r80,t64,n4096`, `clusters:4x16` (4 of 16) or `clusters:3+5+8`. Each can end in the places of the ranks:
/// `mesh:4x4@0-2+9`.
impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (shape, places) = text.trim().split_once('@').map_or((text.trim(), None), |(s, p)| (s, Some(p)));
        let (kind, body) = shape.split_once(':').map_or((shape, None), |(kind, body)| (kind, Some(body)));
        let no = |expected| Error::Text { text: text.to_string(), expected };
        let network = match (kind, body) {
            ("flat", None) => Network::flat(0),
            ("flat", Some(body)) => {
                let ranks = number(body).filter(|&ranks| ranks > 0).ok_or(no(FLAT))?;
                Kind::Flat(Flat::new(ranks)?).into()
            }
            ("torus", Some(body)) => torus(body).ok_or(no(TORUS))??,
            ("mesh", Some(body)) => {
                let dims = numbers(body, 'x').ok_or(no(MESH))?;
                Network::torus(&dims, &vec![false; dims.len()])?
            }
            ("clos", Some(body)) => clos(body).ok_or(no(CLOS))??,
            ("clusters", Some(body)) => Network::clusters(&cluster_sizes(body).ok_or(no(CLUSTERS))?)?,
            ("torus", None) => return Err(no(TORUS)),
            ("mesh", None) => return Err(no(MESH)),
            ("clos", None) => return Err(no(CLOS)),
            ("clusters", None) => return Err(no(CLUSTERS)),
            _ => return Err(no(ANY)),
        };
        match places {
            None => Ok(network),
            Some(places) => network.placed(place_list(places).ok_or(no(PLACES))?),
        }
    }
}

// In the functions below, nothing means text that cannot be read, and an error a network that cannot be.

fn torus(body: &str) -> Option<Result<Network>> {
    let (dims, wrap) = body.split_once(',').map_or((body, None), |(dims, wrap)| (dims, Some(wrap)));
    let dims = numbers(dims, 'x')?;
    let wrap = match wrap {
        None => vec![true; dims.len()],
        Some(wrap) => wrap.strip_prefix("wrap=")?.chars().map(yes_or_no).collect::<Option<Vec<_>>>()?,
    };
    Some(Network::torus(&dims, &wrap))
}

fn yes_or_no(letter: char) -> Option<bool> {
    match letter {
        'y' => Some(true),
        'n' => Some(false),
        _ => None,
    }
}

fn clos(body: &str) -> Option<Result<Network>> {
    let (mut radix, mut terminals, mut ranks, mut mu) = (None, None, None, None);
    for part in body.split(',') {
        let twice = if let Some(value) = part.strip_prefix("mu=") {
            mu.replace(value.parse::<f64>().ok()?).is_some()
        } else if let Some(value) = part.strip_prefix('r') {
            radix.replace(number(value)?).is_some()
        } else if let Some(value) = part.strip_prefix('t') {
            terminals.replace(number(value)?).is_some()
        } else {
            ranks.replace(number(part.strip_prefix('n')?).filter(|&ranks| ranks > 0)?).is_some()
        };
        if twice {
            return None;
        }
    }
    let clos = Clos::new(radix?, terminals?, ranks.unwrap_or(0));
    Some(clos.and_then(|clos| {
        mu.map_or(Ok(()), |mu| clos.check_mu(mu))?;
        Ok(Kind::Clos(clos).into())
    }))
}

fn cluster_sizes(body: &str) -> Option<Vec<u32>> {
    let Some((count, size)) = body.split_once('x') else { return numbers(body, '+') };
    let (count, size) = (number(count)?, number(size)?);
    (count <= MOST_LISTED).then(|| vec![size; count as usize])
}

fn place_list(text: &str) -> Option<Vec<u32>> {
    let mut places = Vec::new();
    for run in text.split('+') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (number(first)?, number(last)?);
        let room = MOST_LISTED - places.len() as u32;
        if last.checked_sub(first)? >= room || last >= MOST_LISTED {
            return None;
        }
        places.extend(first..=last);
    }
    Some(places)
}

fn numbers(text: &str, separator: char) -> Option<Vec<u32>> {
    text.split(separator).map(number).collect()
}

/// Digits only: `parse` alone would also take a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Writes the text that [`FromStr`] reads.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::Flat(flat) if flat.places() == 0 => write!(f, "flat")?,
            Kind::Flat(flat) => write!(f, "flat:{}", flat.places())?,
            Kind::Torus(torus) => write_torus(f, torus)?,
            Kind::Clos(clos) => {
                write!(f, "clos:r{},t{}", clos.radix(), clos.terminals())?;
                if clos.places() > 0 {
                    write!(f, ",n{}", clos.places())?;
                }
            }
            Kind::Clusters(clusters) => {
                let sizes: Vec<u32> = clusters.sizes().collect();
                if sizes.iter().all(|size| *size == sizes[0]) {
                    write!(f, "clusters:{}x{}", sizes.len(), sizes[0])?;
                } else {
                    write!(f, "clusters:{}", joined(&sizes, "+"))?;
                }
            }
        }
        self.placement().map_or(Ok(()), |places| write_places(f, places))
    }
}

fn write_torus(f: &mut fmt::Formatter<'_>, torus: &Torus) -> fmt::Result {
    let wrap: Vec<bool> = (0..torus.dims().len()).map(|dimension| torus.wraps(dimension)).collect();
    let name = if wrap.contains(&true) { "torus" } else { "mesh" };
    write!(f, "{name}:{}", joined(torus.dims(), "x"))?;
    if wrap.contains(&true) && wrap.contains(&false) {
        let letters: String = wrap.iter().map(|&wraps| if wraps { 'y' } else { 'n' }).collect();
        write!(f, ",wrap={letters}")?;
    }
    Ok(())
}

fn write_places(f: &mut fmt::Formatter<'_>, places: &[u32]) -> fmt::Result {
    for (index, run) in places.chunk_by(|a, b| a.checked_add(1) == Some(*b)).enumerate() {
        write!(f, "{}{}", if index == 0 { '@' } else { '+' }, run[0])?;
        if run.len() > 1 {
            write!(f, "-{}", run[run.len() - 1])?;
        }
    }
    Ok(())
}

fn joined(values: &[u32], separator: &str) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back_as_it_was_written() {
        for text in [
            "flat",
            "flat:64",
            "torus:8x16x32",
            "torus:7",
            "torus:4x4x4,wrap=yny",
            "mesh:16x16",
            "clos:r80,t64",
            "clos:r80,t64,n4096",
            "clusters:4x16",
            "clusters:3+5+8",
            "clusters:1x8",
            "mesh:4x4@0-2+9+4-5",
            "clos:r8,t6,n10@9+8",
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn several_ways_to_write_one_network() {
        let same = |a: &str, b: &str| assert_eq!(a.parse::<Network>(), b.parse::<Network>(), "{a} and {b}");
        same("torus:4x4,wrap=yy", "torus:4x4");
        same("torus:4x4,wrap=nn", "mesh:4x4");
        same("clos:n100,t64,r80,mu=0.25", "clos:r80,t64,n100");
        same("clusters:4+4", "clusters:2x4");
        same("clusters:8", "clusters:1x8");
        same("flat:3@0-2", " flat:3 ");
        same("clos:r80,t64@0-3+70", "clos:r80,t64,n71@0-3+70");
    }

    #[test]
    fn text_that_is_no_network_says_what_was_expected() {
        for (text, expected) in [
            ("", ANY),
            ("tree:4", ANY),
            ("flat:", FLAT),
            ("flat:0", FLAT),
            ("flat:+4", FLAT),
            ("torus", TORUS),
            ("torus:", TORUS),
            ("torus:8x", TORUS),
            ("torus:8x8,wrap=yx", TORUS),
            ("torus:99999999999", TORUS),
            ("mesh:4x4,wrap=yy", MESH),
            ("clos:r80", CLOS),
            ("clos:r80,t64,t64", CLOS),
            ("clos:r80,t64,n0", CLOS),
            ("clusters:4x", CLUSTERS),
            ("clusters:4x4x4", CLUSTERS),
            ("flat:4@", PLACES),
            ("flat:4@3-1", PLACES),
            ("flat@0-4294967295", PLACES),
            ("clusters:4000000000x1", CLUSTERS),
        ] {
            let error = Error::Text { text: text.to_string(), expected };
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let sizes = |text: &str| cluster_sizes(text).map(|sizes| sizes.len());
        assert_eq!((sizes("4194304x1"), sizes("4194305x1")), (Some(1 << 22), None));
        let places = |text: &str| place_list(text).map(|places| places.len());
        assert_eq!((places("0-4194303"), places("1-4194302+5+7")), (Some(1 << 22), Some(1 << 22)));
        assert_eq!((places("0-4194304"), places("0-4194303+5")), (None, None));
        assert_eq!((places("4194303"), places("4194304")), (Some(1), None));
    }

    #[test]
    fn networks_that_cannot_be_say_why() {
        let reason = |text: &str| text.parse::<Network>().unwrap_err().to_string();
        assert_eq!(reason("clos:r80,t64,mu=0.5"), "mu=0.5 contradicts radix 80 with 64 terminals, which give mu=0.25");
        assert_eq!(reason("torus:4x4,wrap=y"), "1 values of wrap for 2 dimensions: one per dimension is needed");
        assert_eq!(reason("flat:4@1+4"), "rank 1 is at place 4, but the network has places 0 to 3");
        assert_eq!(reason("mesh:65536x65536"), "the network would have 17179869184 links, the most is 4294967295");
        assert_eq!(reason("clos:r64,t64"), "a leaf switch of radix 64 cannot have 64 terminals, only 1 to 63");
    }
}
