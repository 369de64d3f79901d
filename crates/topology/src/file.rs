//! Networks as TOML files.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use crate::nested_sizes::{self, SizeEntry};
use crate::toml_file::{format_error, read_regular_file};
use crate::{Clos, Error, Network, NetworkKind, Result, text};

/// Maximum length of a network file: enough for the placement of millions of ranks.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The keys of a network file. Which of them are valid depends on the kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    kind: String,
    dims: Option<Vec<u32>>,
    wrap: Option<Vec<bool>>,
    radix: Option<u32>,
    terminals: Option<u32>,
    mu: Option<f64>,
    ppn: Option<u32>,
    sizes: Option<Vec<SizeEntry>>,
    ranks: Option<u32>,
    places: Option<Vec<u32>>,
}

impl NetworkFile {
    /// Rejects keys that this kind does not have, instead of ignoring them.
    fn check_keys(&self, allowed: &[&str]) -> Result<()> {
        let given = [
            ("dims", self.dims.is_some()),
            ("wrap", self.wrap.is_some()),
            ("radix", self.radix.is_some()),
            ("terminals", self.terminals.is_some()),
            ("mu", self.mu.is_some()),
            ("ppn", self.ppn.is_some()),
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
                self.check_keys(&["ppn"])?;
                match self.ppn {
                    Some(0) => Err(Error::Toml("`ppn` must be 1 or more".to_string())),
                    per_host => Network::flat_with_hosts(0, per_host.unwrap_or(1)),
                }
            }
            "torus" | "mesh" => {
                let wraps = self.kind == "torus";
                self.check_keys(if wraps { &["dims", "wrap"] } else { &["dims"] })?;
                let dims = required(&self.dims, "dims")?;
                Network::torus(dims, self.wrap.as_ref().unwrap_or(&vec![wraps; dims.len()]))
            }
            "clos" => {
                self.check_keys(&["radix", "terminals", "mu"])?;
                let clos = Clos::new(*required(&self.radix, "radix")?, *required(&self.terminals, "terminals")?, 0)?;
                self.mu.map_or(Ok(()), |mu| clos.check_mu(mu))?;
                Ok(NetworkKind::Clos(clos).into())
            }
            "clusters" => {
                self.check_keys(&["sizes"])?;
                let uneven = || Error::Toml("the clusters in `sizes` are not all nested equally deep".to_string());
                Network::nested_clusters(&nested_sizes::levels(required(&self.sizes, "sizes")?).ok_or_else(uneven)?)
            }
            other => {
                let expected = "expected flat, torus, mesh, clos or clusters";
                Err(Error::Toml(format!("unknown kind `{other}`, {expected}")))
            }
        }
    }
}

fn required<'a, T>(value: &'a Option<T>, key: &str) -> Result<&'a T> {
    value.as_ref().ok_or_else(|| Error::Toml(format!("`{key}` is missing")))
}

impl Network {
    /// Parses a network from TOML.
    ///
    /// `kind` is flat, torus, mesh, clos or clusters. A flat network optionally has `ppn` (ranks per host), a torus
    /// `dims` and optionally `wrap`, a mesh `dims`, a Clos network `radix`, `terminals` and optionally `mu`. Clusters
    /// have `sizes`, for nested ones an array of arrays. `ranks` and `places` (the node of each rank) are optional for
    /// all kinds.
    ///
    /// ```
    /// let toml = "kind = 'torus'\ndims = [8, 8, 4]\nwrap = [true, true, false]";
    /// let network = treepie_topology::Network::from_toml(toml)?;
    /// assert_eq!(network.to_string(), "torus:8x8x4,wrap=yyn");
    /// # Ok::<(), treepie_topology::Error>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        let mut file: NetworkFile = toml::from_str(text).map_err(|error| Error::Toml(format_error(&error, text)))?;
        let network = file.network()?;
        let network = match file.places.take() {
            Some(nodes) => network.with_placement(nodes)?,
            None => network,
        };
        file.ranks.map_or(Ok(network.clone()), |ranks| network.for_ranks(ranks))
    }

    /// Parses a network such as `torus:8x8x8`, or reads it from the TOML file with this path.
    pub fn load(text_or_path: &str) -> Result<Self> {
        if text::has_kind_prefix(text_or_path) {
            return text_or_path.parse();
        }
        match read_regular_file(Path::new(text_or_path), MAX_FILE_BYTES) {
            Ok(text) => Network::from_toml(&text),
            // What neither exists nor looks like a path is more likely a mistyped network.
            Err(error) if error.kind() == ErrorKind::NotFound && !text::looks_like_path(text_or_path) => {
                Err(text::neither_network_nor_file(text_or_path))
            }
            Err(error) => Err(Error::File { path: text_or_path.to_string(), reason: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_text_describe_the_same_networks() {
        for (toml, text) in [
            ("kind = 'flat'", "flat"),
            ("kind = 'flat'\nranks = 9", "flat:9"),
            ("kind = 'torus'\ndims = [8, 8, 8]\nranks = 512", "torus:8x8x8"),
            ("kind = 'torus'\ndims = [4, 5]\nwrap = [true, false]", "torus:4x5,wrap=yn"),
            ("kind = 'mesh'\ndims = [4, 4]\nplaces = [0, 1, 9]\nranks = 3", "mesh:4x4@0-1+9"),
            ("kind = 'clos'\nradix = 80\nterminals = 64\nmu = 0.25\nranks = 4096", "clos:r80,t64,n4096"),
            ("kind = 'clusters'\nsizes = [3, 5, 8]", "clusters:3+5+8"),
            ("kind = 'clusters'\nsizes = [[4, 4], [8, 2, 2]]", "clusters:(2x4)+(8+2+2)"),
            ("kind = 'clusters'\nsizes = [[[4, 4], [4, 4]]]", "clusters:1x2x2x4"),
            ("kind = 'flat'\nranks = 64\nppn = 4", "flat:64,ppn=4"),
            ("kind = 'flat'\nppn = 4", "flat:ppn=4"),
        ] {
            assert_eq!(Network::from_toml(toml).unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_are_one_line() {
        for (toml, reason) in [
            (
                "kind = 'flat'\ncolor = 'red'",
                "line 2: unknown field `color`, expected one of `kind`, `dims`, `wrap`, `radix`, `terminals`, `mu`, \
                 `ppn`, `sizes`, `ranks`, `places`",
            ),
            ("kind = 'flat'\nradix = 8", "a network of kind flat has no `radix`"),
            ("kind = 'mesh'\ndims = [4]\nwrap = [true]", "a network of kind mesh has no `wrap`"),
            ("kind = 'torus'", "`dims` is missing"),
            ("kind = 'torus'\nppn = 2", "a network of kind torus has no `ppn`"),
            ("kind = 'flat'\nppn = 0", "`ppn` must be 1 or more"),
            ("kind = 'clusters'\nsizes = [[4, 4], 2]", "the clusters in `sizes` are not all nested equally deep"),
            ("kind = 'clusters'\nsizes = [[4], [[2]]]", "the clusters in `sizes` are not all nested equally deep"),
            ("kind = 'tree'", "unknown kind `tree`, expected flat, torus, mesh, clos or clusters"),
            ("", "missing field `kind`"),
        ] {
            assert_eq!(Network::from_toml(toml), Err(Error::Toml(reason.to_string())));
        }
        let deep = format!("kind = 'clusters'\nsizes = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        for toml in [
            "kind = ",
            "kind = 'torus'\ndims = [4, -1]",
            "kind = 'flat'\nranks = 'many'",
            "kind = 'clusters'\nsizes = [[4], ['five']]",
            "kind = 'clusters'\nsizes = [[4, -1]]",
            "kind = 'clusters'\nsizes = 4",
            &deep,
        ] {
            let reason = Network::from_toml(toml).unwrap_err().to_string();
            assert!(reason.starts_with("bad network file: line ") && !reason.contains('\n'), "{reason}");
        }
        for (sizes, reason) in
            [("[[]]", "bad cluster sizes []: "), ("[[[[[[[[[1]]]]]]]]]", "clusters can be nested on 8 ")]
        {
            let error = Network::from_toml(&format!("kind = 'clusters'\nsizes = {sizes}")).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
        let short = "kind = 'torus'\ndims = [4]\nranks = 5";
        assert_eq!(
            Network::from_toml(short).unwrap_err().to_string(),
            "5 ranks requested, but the network `torus:4` has 4"
        );
    }

    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        for path in ["/dev/zero", "/dev/full", "/", "/dev/stdin"] {
            let Err(Error::File { reason, .. }) = Network::load(path) else { panic!("{path} is not a network") };
            assert_eq!(reason, "it is not a regular file", "{path}");
        }
        let path = std::env::temp_dir().join(format!("treepie-topology-long-{}.toml", std::process::id()));
        for (length, too_long) in [(MAX_FILE_BYTES, false), (MAX_FILE_BYTES + 1, true)] {
            std::fs::File::create(&path).and_then(|file| file.set_len(length)).unwrap();
            let error = Network::load(path.to_str().unwrap()).unwrap_err().to_string();
            assert_eq!(error.contains("it has more than 64 MiB"), too_long, "{error:.200}");
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
            assert!(error.starts_with(&format!("`{text}` is not a network: expected flat, torus:8x8x8")), "{error}");
        }
        let path = std::env::temp_dir().join(format!("treepie-topology-{}.toml", std::process::id()));
        std::fs::write(&path, "kind = 'mesh'\ndims = [3, 3]").unwrap();
        let loaded = Network::load(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(loaded, "mesh:3x3".parse());
    }
}
