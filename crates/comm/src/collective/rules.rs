//! Rules: algorithms by operation, size and number of ranks, from a file.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use treepie_base::{Error, Result, environment};
use treepie_collectives::registry;
use treepie_schedule::Operation;
use treepie_topology::toml_file::{format_error, read_regular_file};

use super::selector::{AlgorithmSelector, SelectionQuery};

/// Maximum length of a file of rules.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Algorithms for ranges of sizes and of numbers of ranks. For a call the first rule counts that is for its operation
/// and in whose ranges it is; if there is none, the cost model chooses. A handle uses them as its
/// [selector](crate::Comm::with_selector), all handles those of the file that `TREEPIE_RULES` names.
///
/// ```
/// use treepie_comm::AlgorithmRules;
///
/// let rules = AlgorithmRules::parse(
///     r#"
///     [[rule]]
///     algorithm = "allreduce/ring"
///     bytes = [1048576, 67108864]
///     ranks = [8, 64]
///
///     [[rule]]
///     algorithm = "bcast/chain:segments=16"
///     "#,
/// )?;
/// assert_eq!(rules.len(), 2);
/// assert!(AlgorithmRules::parse("[[rule]]\nalgorithm = 'bcast/fast'").is_err());
/// # treepie_comm::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmRules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    algorithm: String,
    bytes: RangeInclusive<u64>,
    ranks: RangeInclusive<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    rule: Vec<RuleSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSection {
    algorithm: String,
    bytes: Option<[u64; 2]>,
    ranks: Option<[u32; 2]>,
}

impl AlgorithmRules {
    /// Reads rules from a TOML file. One that is invalid, or names an unknown algorithm, is refused.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        load(path).map_err(|reason| Error::Algorithm(format!("{}: {reason}", path.display())))
    }

    /// Parses rules from TOML: `[[rule]]` with an `algorithm`, and optionally the smallest and the largest of `bytes`
    /// (of the vector, or of all blocks) and of `ranks`.
    pub fn parse(text: &str) -> Result<Self> {
        parse(text).map_err(Error::Algorithm)
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

fn load(path: &Path) -> std::result::Result<AlgorithmRules, String> {
    parse(&read_regular_file(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?)
}

fn parse(text: &str) -> std::result::Result<AlgorithmRules, String> {
    let RulesFile { rule } = toml::from_str(text).map_err(|error| format_error(&error, text))?;
    let rules = rule.into_iter().enumerate().map(|(index, section)| {
        let refused = |reason: String| format!("rule {}: {reason}", index + 1);
        let RuleSection { algorithm, bytes, ranks } = section;
        check(&algorithm).map_err(refused)?;
        let (bytes, ranks) = (bytes.unwrap_or([0, u64::MAX]), ranks.unwrap_or([0, u32::MAX]));
        if bytes[0] > bytes[1] || ranks[0] > ranks[1] {
            return Err(refused("a range has its largest value first".to_owned()));
        }
        Ok(Rule { algorithm, bytes: bytes[0]..=bytes[1], ranks: ranks[0]..=ranks[1] })
    });
    Ok(AlgorithmRules { rules: rules.collect::<std::result::Result<_, String>>()? })
}

/// Refuses an unknown algorithm, invalid arguments, and what is not selected by size.
fn check(id: &str) -> std::result::Result<(), String> {
    let family = id.split('/').next().unwrap_or_default();
    if family == Operation::Barrier.name() || Operation::from_name(family, 0).is_none() {
        return Err(format!("{id} is no algorithm of a collective operation with data; TREEPIE_ALGORITHM sets others"));
    }
    registry::check_id(id).map_err(|refusal| refusal.to_string())
}

impl AlgorithmSelector for AlgorithmRules {
    fn select(&self, query: &SelectionQuery<'_>) -> Option<String> {
        let is_for = |rule: &&Rule| {
            rule.algorithm.split('/').next() == Some(query.operation.name())
                && rule.ranks.contains(&query.ranks)
                && rule.bytes.contains(&(query.bytes.unwrap_or(0) as u64))
        };
        self.rules.iter().find(is_for).map(|rule| rule.algorithm.clone())
    }
}

/// The rules of the file that `TREEPIE_RULES` names, if it is set.
pub(super) fn from_environment() -> Result<Option<&'static AlgorithmRules>> {
    static RULES: OnceLock<Result<Option<AlgorithmRules>>> = OnceLock::new();
    let loaded = RULES.get_or_init(|| {
        let Some(path) = environment::text(environment::RULES)? else { return Ok(None) };
        let rules = load(Path::new(&path));
        rules.map(Some).map_err(|reason| environment::invalid_value(environment::RULES, &path, reason))
    });
    loaded.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use treepie_topology::Network;

    use super::*;

    #[test]
    fn the_first_rule_in_whose_ranges_a_call_is_counts() {
        let text = "[[rule]]\nalgorithm = 'allreduce/ring'\nbytes = [100, 200]\n\
                    [[rule]]\nalgorithm = 'allreduce/linear'\nranks = [2, 4]\n\
                    [[rule]]\nalgorithm = 'bcast/chain'\n";
        let rules = AlgorithmRules::parse(text).unwrap();
        let select = |operation, ranks, bytes| {
            let network = Network::flat(ranks);
            let query = SelectionQuery { operation, ranks, bytes, commutative: true, uniform: true, network: &network };
            rules.select(&query)
        };
        let allreduce = |ranks, bytes| select(Operation::Allreduce, ranks, Some(bytes));
        assert_eq!(allreduce(8, 100).as_deref(), Some("allreduce/ring"));
        assert_eq!(allreduce(2, 200).as_deref(), Some("allreduce/ring"));
        assert_eq!(allreduce(4, 201).as_deref(), Some("allreduce/linear"));
        assert_eq!(allreduce(5, 99), None);
        assert_eq!(select(Operation::Bcast { root: 0 }, 99, None).as_deref(), Some("bcast/chain"));
        assert_eq!(select(Operation::Scan, 2, Some(8)), None);
    }

    #[test]
    fn bad_rules_are_refused_in_one_line() {
        for (text, reason) in [
            ("[[rule]]\nalgorithm = 'bcast/fast'", "rule 1: "),
            ("[[rule]]\nalgorithm = 'bcast/flat'\nbytes = [9, 8]", "rule 1: a range has its largest value first"),
            ("[[rule]]\nalgorithm = 'bcast/chain:sgments=4'", "sgments"),
            ("[[rule]]\nalgorithm = 'split/merge'", "rule 1: split/merge is no algorithm"),
            ("[[rule]]\nalgorithm = 'barrier/tree'", "rule 1: barrier/tree is no algorithm"),
            ("[[rule]]\nbytes = [8, 9]", "missing field `algorithm`"),
            ("[[rule]]\nalgorithm = 'bcast/flat'\nsize = 3", "unknown field `size`"),
            ("rule = 3", "invalid type"),
        ] {
            let message = AlgorithmRules::parse(text).unwrap_err().to_string();
            assert!(message.contains(reason) && message.lines().count() == 1, "{message}");
        }
        let message = AlgorithmRules::load("/nowhere").unwrap_err().to_string();
        assert!(message.contains("/nowhere: "), "{message}");
    }
}
