//! Networks as text, as given on a command line.

use std::fmt;
use std::str::FromStr;

use crate::nested_sizes::{self, MAX_LISTED};
use crate::{Clos, Error, Flat, Network, NetworkKind, Result, Torus};

/// The kinds that a network's text can begin with.
const KINDS: [&str; 5] = ["flat", "torus", "mesh", "clos", "clusters"];

const ANY: &str = "flat, torus:8x8x8, mesh:16x16, clos:r80,t64 or clusters:4x16";
const ANY_OR_FILE: &str = "flat, torus:8x8x8, mesh:16x16, clos:r80,t64 or clusters:4x16, or the path of a TOML file";
const FLAT: &str = "flat, flat:64 for 64 ranks, or flat:64,ppn=4 with 4 ranks on each host";
const TORUS: &str = "torus:8x16x32, or torus:4x4x4,wrap=yny where not every dimension wraps";
const MESH: &str = "mesh:16x16";
const CLOS: &str = "clos:r80,t64 (radix, terminals per leaf), with ,n4096 for the ranks and ,mu=0.25 as a check";
const CLUSTERS: &str = "clusters:4x16 (4 of 16), clusters:3+5+8, or nested up to 8 levels, all equally deep: \
                        clusters:2x4x16 (2 groups of 4 of 16), clusters:(3+5)+(8+2+2)";
const PLACEMENT: &str = "nodes such as @0-3+9 after the network";

/// Whether the text begins with a kind of network, so that it is not a path.
pub(crate) fn has_kind_prefix(text: &str) -> bool {
    let name = text.trim().split([':', '@']).next().unwrap_or_default();
    KINDS.contains(&name)
}

/// Whether the text is probably meant as a path.
pub(crate) fn looks_like_path(text: &str) -> bool {
    text.contains('/') || text.ends_with(".toml")
}

/// The error for text that is neither a network nor the path of a file.
pub(crate) fn neither_network_nor_file(text: &str) -> Error {
    Error::Text { text: text.to_string(), expected: ANY_OR_FILE }
}

/// Parses `flat`, `flat:64`, `flat:64,ppn=4` (4 ranks on each host), `torus:8x16x32`, `torus:4x4x4,wrap=yny`,
/// `mesh:16x16`, `clos:r80,t64`, `clos:r80,t64,n4096`, `clusters:4x16` (4 of 16), `clusters:3+5+8`, or nested clusters:
/// `clusters:2x4x16` (2 groups of 4 clusters of 16), `clusters:(3+5)+(8+2+2)`. Each can end in a placement, the nodes
/// of the ranks: `mesh:4x4@0-2+9`.
impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (shape, placement) = text.trim().split_once('@').map_or((text.trim(), None), |(s, p)| (s, Some(p)));
        let (kind, body) = shape.split_once(':').map_or((shape, None), |(kind, body)| (kind, Some(body)));
        let error = |expected| Error::Text { text: text.to_string(), expected };
        let network = match (kind, body) {
            ("flat", None) => Network::flat(0),
            ("flat", Some(body)) => parse_flat(body).ok_or(error(FLAT))??,
            ("torus", Some(body)) => parse_torus(body).ok_or(error(TORUS))??,
            ("mesh", Some(body)) => {
                let dims = parse_numbers(body, 'x').ok_or(error(MESH))?;
                Network::torus(&dims, &vec![false; dims.len()])?
            }
            ("clos", Some(body)) => parse_clos(body).ok_or(error(CLOS))??,
            ("clusters", Some(body)) => Network::nested_clusters(&nested_sizes::parse(body).ok_or(error(CLUSTERS))?)?,
            ("torus", None) => return Err(error(TORUS)),
            ("mesh", None) => return Err(error(MESH)),
            ("clos", None) => return Err(error(CLOS)),
            ("clusters", None) => return Err(error(CLUSTERS)),
            _ => return Err(error(ANY)),
        };
        match placement {
            None => Ok(network),
            Some(nodes) => network.with_placement(parse_node_list(nodes).ok_or(error(PLACEMENT))?),
        }
    }
}

// In the functions below, `None` means text that cannot be parsed, and an error means an invalid network.

fn parse_flat(body: &str) -> Option<Result<Network>> {
    let positive = |text| parse_number(text).filter(|&number| number > 0);
    let (ranks, per_host) = match body.split_once(',') {
        Some((ranks, per_host)) => (positive(ranks)?, Some(per_host)),
        None if body.starts_with("ppn=") => (0, Some(body)),
        None => (positive(body)?, None),
    };
    let per_host = per_host.map_or(Some(1), |text| positive(text.strip_prefix("ppn=")?))?;
    Some(Network::flat_with_hosts(ranks, per_host))
}

fn parse_torus(body: &str) -> Option<Result<Network>> {
    let (dims, wrap) = body.split_once(',').map_or((body, None), |(dims, wrap)| (dims, Some(wrap)));
    let dims = parse_numbers(dims, 'x')?;
    let wrap = match wrap {
        None => vec![true; dims.len()],
        Some(wrap) => wrap.strip_prefix("wrap=")?.chars().map(parse_wrap_flag).collect::<Option<Vec<_>>>()?,
    };
    Some(Network::torus(&dims, &wrap))
}

fn parse_wrap_flag(letter: char) -> Option<bool> {
    match letter {
        'y' => Some(true),
        'n' => Some(false),
        _ => None,
    }
}

fn parse_clos(body: &str) -> Option<Result<Network>> {
    let (mut radix, mut terminals, mut ranks, mut mu) = (None, None, None, None);
    for part in body.split(',') {
        let repeated = if let Some(value) = part.strip_prefix("mu=") {
            mu.replace(value.parse::<f64>().ok()?).is_some()
        } else if let Some(value) = part.strip_prefix('r') {
            radix.replace(parse_number(value)?).is_some()
        } else if let Some(value) = part.strip_prefix('t') {
            terminals.replace(parse_number(value)?).is_some()
        } else {
            ranks.replace(parse_number(part.strip_prefix('n')?).filter(|&ranks| ranks > 0)?).is_some()
        };
        if repeated {
            return None;
        }
    }
    let clos = Clos::new(radix?, terminals?, ranks.unwrap_or(0));
    Some(clos.and_then(|clos| {
        mu.map_or(Ok(()), |mu| clos.check_mu(mu))?;
        Ok(NetworkKind::Clos(clos).into())
    }))
}

fn parse_node_list(text: &str) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for run in text.split('+') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (parse_number(first)?, parse_number(last)?);
        let room = MAX_LISTED - nodes.len() as u32;
        if last.checked_sub(first)? >= room || last >= MAX_LISTED {
            return None;
        }
        nodes.extend(first..=last);
    }
    Some(nodes)
}

fn parse_numbers(text: &str, separator: char) -> Option<Vec<u32>> {
    text.split(separator).map(parse_number).collect()
}

/// Digits only: `parse` alone would also take a sign.
fn parse_number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Writes the text that [`FromStr`] reads.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            NetworkKind::Flat(flat) => write_flat(f, flat)?,
            NetworkKind::Torus(torus) => write_torus(f, torus)?,
            NetworkKind::Clos(clos) => {
                write!(f, "clos:r{},t{}", clos.radix(), clos.terminals())?;
                if clos.nodes() > 0 {
                    write!(f, ",n{}", clos.nodes())?;
                }
            }
            NetworkKind::Clusters(clusters) => write!(f, "clusters:{}", nested_sizes::format(clusters))?,
        }
        self.placement().map_or(Ok(()), |nodes| write_placement(f, nodes))
    }
}

fn write_flat(f: &mut fmt::Formatter<'_>, flat: &Flat) -> fmt::Result {
    match (flat.nodes(), flat.nodes_per_host()) {
        (0, 1) => write!(f, "flat"),
        (0, per_host) => write!(f, "flat:ppn={per_host}"),
        (nodes, 1) => write!(f, "flat:{nodes}"),
        (nodes, per_host) => write!(f, "flat:{nodes},ppn={per_host}"),
    }
}

fn write_torus(f: &mut fmt::Formatter<'_>, torus: &Torus) -> fmt::Result {
    let wrap: Vec<bool> = (0..torus.dims().len()).map(|dimension| torus.wraps(dimension)).collect();
    let name = if wrap.contains(&true) { "torus" } else { "mesh" };
    write!(f, "{name}:{}", join(torus.dims(), "x"))?;
    if wrap.contains(&true) && wrap.contains(&false) {
        let letters: String = wrap.iter().map(|&wraps| if wraps { 'y' } else { 'n' }).collect();
        write!(f, ",wrap={letters}")?;
    }
    Ok(())
}

fn write_placement(f: &mut fmt::Formatter<'_>, nodes: &[u32]) -> fmt::Result {
    for (index, run) in nodes.chunk_by(|a, b| a.checked_add(1) == Some(*b)).enumerate() {
        write!(f, "{}{}", if index == 0 { '@' } else { '+' }, run[0])?;
        if run.len() > 1 {
            write!(f, "-{}", run[run.len() - 1])?;
        }
    }
    Ok(())
}

fn join(values: &[u32], separator: &str) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "flat",
            "flat:64",
            "flat:64,ppn=4",
            "flat:10,ppn=4@9+0-3",
            "flat:ppn=4",
            "torus:8x16x32",
            "torus:7",
            "torus:4x4x4,wrap=yny",
            "mesh:16x16",
            "clos:r80,t64",
            "clos:r80,t64,n4096",
            "clusters:4x16",
            "clusters:3+5+8",
            "clusters:1x8",
            "clusters:2x4x8",
            "clusters:1x2x1x3",
            "clusters:2x(3+5)",
            "clusters:(2x4)+(8+2+2)",
            "clusters:(2x(1+2))+(2x3x4)@9+0",
            "mesh:4x4@0-2+9+4-5",
            "clos:r8,t6,n10@9+8",
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn several_spellings_of_one_network() {
        let same = |a: &str, b: &str| assert_eq!(a.parse::<Network>(), b.parse::<Network>(), "{a} and {b}");
        same("torus:4x4,wrap=yy", "torus:4x4");
        same("torus:4x4,wrap=nn", "mesh:4x4");
        same("clos:n100,t64,r80,mu=0.25", "clos:r80,t64,n100");
        same("clusters:4+4", "clusters:2x4");
        same("clusters:8", "clusters:1x8");
        same("clusters:(4+4)+(4+4)", "clusters:2x2x4");
        same("clusters:(3+5)+(3+5)", "clusters:2x(3+5)");
        same("flat:8,ppn=1", "flat:8");
        same("flat:3@0-2", " flat:3 ");
        same("clos:r80,t64@0-3+70", "clos:r80,t64,n71@0-3+70");
    }

    #[test]
    fn errors_name_the_expected_form() {
        for (text, expected) in [
            ("", ANY),
            ("tree:4", ANY),
            ("flat:", FLAT),
            ("flat:0", FLAT),
            ("flat:+4", FLAT),
            ("flat:4,ppn=0", FLAT),
            ("flat:4,ppn", FLAT),
            ("flat:0,ppn=4", FLAT),
            ("flat:4,ppn=2,ppn=2", FLAT),
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
            ("clusters:4x4+4", CLUSTERS),
            ("clusters:(4+4)+4", CLUSTERS),
            ("clusters:1x1x1x1x1x1x1x1x1x1", CLUSTERS),
            ("flat:4@", PLACEMENT),
            ("flat:4@3-1", PLACEMENT),
            ("flat@0-4294967295", PLACEMENT),
            ("clusters:4000000000x1", CLUSTERS),
        ] {
            let error = Error::Text { text: text.to_string(), expected };
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let sizes = |text: &str| nested_sizes::parse(text).map(|levels| levels[0].len());
        assert_eq!((sizes("4194304x1"), sizes("4194305x1")), (Some(1 << 22), None));
        let nodes = |text: &str| parse_node_list(text).map(|nodes| nodes.len());
        assert_eq!((nodes("0-4194303"), nodes("1-4194302+5+7")), (Some(1 << 22), Some(1 << 22)));
        assert_eq!((nodes("0-4194304"), nodes("0-4194303+5")), (None, None));
        assert_eq!((nodes("4194303"), nodes("4194304")), (Some(1), None));
    }

    #[test]
    fn errors_of_invalid_networks() {
        let reason = |text: &str| text.parse::<Network>().unwrap_err().to_string();
        assert_eq!(reason("clos:r80,t64,mu=0.5"), "mu=0.5 contradicts radix 80 with 64 terminals, which give mu=0.25");
        assert_eq!(reason("torus:4x4,wrap=y"), "1 values of wrap for 2 dimensions: one per dimension is needed");
        assert_eq!(reason("flat:4@1+4"), "rank 1 is at node 4, but the network has nodes 0 to 3");
        assert_eq!(reason("mesh:65536x65536"), "the network would have 17179869184 links; the maximum is 4294967295");
        let bad = "one or more clusters are needed, each of 1 or more ranks";
        assert_eq!(reason("clusters:2x0x4"), format!("bad cluster sizes []: {bad}"));
        assert_eq!(reason("clusters:(4+0)+(2x3)"), format!("bad cluster sizes [4, 0, 3, 3]: {bad}"));
        assert_eq!(reason("clos:r64,t64"), "a leaf switch of radix 64 cannot have 64 terminals, only 1 to 63");
    }
}
