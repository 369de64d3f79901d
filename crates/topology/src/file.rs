//! Networks as TOML files.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use serde::Deserialize;

use crate::{Clos, Error, Kind, Network, Result, text};

/// Files may be so long: with places of millions of ranks.
const LONGEST: u64 = 64 << 20;

/// All keys of a network file. Which of them a network may have depends on its kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    kind: String,
    dims: Option<Vec<u32>>,
    wrap: Option<Vec<bool>>,
    radix: Option<u32>,
    terminals: Option<u32>,
    mu: Option<f64>,
    sizes: Option<Vec<u32>>,
    ranks: Option<u32>,
    places: Option<Vec<u32>>,
}

impl Keys {
    /// Refuses keys that say nothing about this kind, since whoever wrote them believes that they do.
    fn check(&self, allowed: &[&str]) -> Result<()> {
        let given = [
            ("dims", self.dims.is_some()),
            ("wrap", self.wrap.is_some()),
            ("radix", self.radix.is_some()),
            ("terminals", self.terminals.is_some()),
            ("mu", self.mu.is_some()),
            ("sizes", self.sizes.is_some()),
        ];
        match given.iter().find(|(key, is_given)| *is_given && !allowed.contains(key)) {
            Some((key, _)) => Err(Error::Toml(format!("a network of kind {} has no `{key}`", self.kind))),
            None => Ok(()),
        }
    }

    fn network(&self) -> Result<Network> {
        match self.kind.as_str() {
            "flat" => {
                self.check(&[])?;
                Ok(Network::flat(0))
            }
            "torus" | "mesh" => {
                let ring = self.kind == "torus";
                self.check(if ring { &["dims", "wrap"] } else { &["dims"] })?;
                let dims = needed(&self.dims, "dims")?;
                Network::torus(dims, self.wrap.as_ref().unwrap_or(&vec![ring; dims.len()]))
            }
            "clos" => {
                self.check(&["radix", "terminals", "mu"])?;
                let clos = Clos::new(*needed(&self.radix, "radix")?, *needed(&self.terminals, "terminals")?, 0)?;
                self.mu.map_or(Ok(()), |mu| clos.check_mu(mu))?;
                Ok(Kind::Clos(clos).into())
            }
            "clusters" => {
                self.check(&["sizes"])?;
                Network::clusters(needed(&self.sizes, "sizes")?)
            }
            other => {
                let expected = "expected flat, torus, mesh, clos or clusters";
                Err(Error::Toml(format!("unknown kind `{other}`, {expected}")))
            }
        }
    }
}

fn needed<'a, T>(value: &'a Option<T>, key: &str) -> Result<&'a T> {
    value.as_ref().ok_or_else(|| Error::Toml(format!("`{key}` is missing")))
}

impl Network {
    /// Reads a network from TOML text.
    ///
    /// `kind` is flat, torus, mesh, clos or clusters. A torus has `dims` and perhaps `wrap`, a mesh `dims`, a Clos
    /// network `radix`, `terminals` and perhaps `mu`, clusters have `sizes`. `ranks` and `places` (of each rank) may
    /// always be given.
    ///
    /// ```
    /// let toml = "kind = 'torus'\ndims = [8, 8, 4]\nwrap = [true, true, false]";
    /// let network = treepie_topology::Network::from_toml(toml)?;
    /// assert_eq!(network.to_string(), "torus:8x8x4,wrap=yyn");
    /// # Ok::<(), treepie_topology::Error>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        let mut keys: Keys = toml::from_str(text).map_err(|error| Error::Toml(in_one_line(&error, text)))?;
        let network = keys.network()?;
        let network = match keys.places.take() {
            Some(places) => network.placed(places)?,
            None => network,
        };
        keys.ranks.map_or(Ok(network.clone()), |ranks| network.for_ranks(ranks))
    }

    /// Reads a network from short text such as `torus:8x8x8`, or from the TOML file with this path.
    pub fn load(text_or_path: &str) -> Result<Self> {
        if text::names_a_kind(text_or_path) {
            return text_or_path.parse();
        }
        match read(text_or_path) {
            Ok(text) => Network::from_toml(&text),
            // Without such a file, what does not look like a path is rather a network that was mistyped.
            Err(error) if error.kind() == ErrorKind::NotFound && !text::looks_like_a_path(text_or_path) => {
                Err(text::neither(text_or_path))
            }
            Err(error) => Err(Error::File { path: text_or_path.to_string(), reason: error.to_string() }),
        }
    }
}

/// Reads a regular file that is not too long. A device may have no end, and a FIFO may never have a beginning.
fn read(path: &str) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    // The length that the system says may be wrong (`/proc`), or the file may grow.
    let read = File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if read as u64 > LONGEST {
        return Err(io::Error::other(format!("it has more than {} MiB", LONGEST >> 20)));
    }
    Ok(text)
}

fn in_one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    match error.span() {
        Some(span) if !text.is_empty() => {
            let line = 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count();
            format!("line {line}: {message}")
        }
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_what_short_text_says() {
        for (toml, text) in [
            ("kind = 'flat'", "flat"),
            ("kind = 'flat'\nranks = 9", "flat:9"),
            ("kind = 'torus'\ndims = [8, 8, 8]\nranks = 512", "torus:8x8x8"),
            ("kind = 'torus'\ndims = [4, 5]\nwrap = [true, false]", "torus:4x5,wrap=yn"),
            ("kind = 'mesh'\ndims = [4, 4]\nplaces = [0, 1, 9]\nranks = 3", "mesh:4x4@0-1+9"),
            ("kind = 'clos'\nradix = 80\nterminals = 64\nmu = 0.25\nranks = 4096", "clos:r80,t64,n4096"),
            ("kind = 'clusters'\nsizes = [3, 5, 8]", "clusters:3+5+8"),
        ] {
            assert_eq!(Network::from_toml(toml).unwrap().to_string(), text);
        }
    }

    #[test]
    fn refusals_are_one_clear_line() {
        for (toml, reason) in [
            (
                "kind = 'flat'\ncolour = 'red'",
                "line 2: unknown field `colour`, expected one of `kind`, `dims`, `wrap`, `radix`, `terminals`, `mu`, \
                 `sizes`, `ranks`, `places`",
            ),
            ("kind = 'flat'\nradix = 8", "a network of kind flat has no `radix`"),
            ("kind = 'mesh'\ndims = [4]\nwrap = [true]", "a network of kind mesh has no `wrap`"),
            ("kind = 'torus'", "`dims` is missing"),
            ("kind = 'tree'", "unknown kind `tree`, expected flat, torus, mesh, clos or clusters"),
            ("", "missing field `kind`"),
        ] {
            assert_eq!(Network::from_toml(toml), Err(Error::Toml(reason.to_string())));
        }
        for toml in ["kind = ", "kind = 'torus'\ndims = [4, -1]", "kind = 'flat'\nranks = 'many'"] {
            let reason = Network::from_toml(toml).unwrap_err().to_string();
            assert!(reason.starts_with("bad network file: line ") && !reason.contains('\n'), "{reason}");
        }
        let short = "kind = 'torus'\ndims = [4]\nranks = 5";
        assert_eq!(
            Network::from_toml(short).unwrap_err().to_string(),
            "5 ranks were asked for, but the network `torus:4` has 4"
        );
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        for path in ["/dev/zero", "/dev/full", "/", "/dev/stdin"] {
            let Err(Error::File { reason, .. }) = Network::load(path) else { panic!("{path} is no network") };
            assert_eq!(reason, "it is not a regular file", "{path}");
        }
        let path = std::env::temp_dir().join(format!("treepie-topology-long-{}.toml", std::process::id()));
        for (length, too_long) in [(LONGEST, false), (LONGEST + 1, true)] {
            File::create(&path).and_then(|file| file.set_len(length)).unwrap();
            let refused = Network::load(path.to_str().unwrap()).unwrap_err().to_string();
            assert_eq!(refused.contains("it has more than 64 MiB"), too_long, "{refused:.200}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn load_takes_text_and_paths() {
        assert_eq!(Network::load("torus:4x4"), "torus:4x4".parse());
        assert!(matches!(Network::load("clos"), Err(Error::Text { .. })));
        for path in ["no/such/file.toml", "no/such/file", "missing.toml"] {
            assert!(matches!(Network::load(path), Err(Error::File { .. })), "{path}");
        }
        for text in ["toru:8x8", "trous", "hypercube:4", ""] {
            let error = Network::load(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is no network: expected flat, torus:8x8x8")), "{error}");
        }
        let path = std::env::temp_dir().join(format!("treepie-topology-{}.toml", std::process::id()));
        std::fs::write(&path, "kind = 'mesh'\ndims = [3, 3]").unwrap();
        let loaded = Network::load(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(loaded, "mesh:3x3".parse());
    }
}
