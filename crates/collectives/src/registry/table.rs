//! The registry as a table of text.

use std::fmt::Write;

use super::{Algorithm, NetworkRequirement, all};

/// The requirements of an algorithm in words.
fn requirement(algorithm: &Algorithm) -> String {
    let requires = &algorithm.requires;
    let mut needs = Vec::new();
    if requires.network != NetworkRequirement::Any {
        needs.push(requires.network.description());
    }
    if requires.commutative {
        needs.push("a commutative operator");
    }
    if !requires.in_place {
        needs.push("separate buffers");
    }
    if needs.is_empty() { "any P".to_owned() } else { needs.join("; ") }
}

fn parameters(algorithm: &Algorithm) -> String {
    algorithm.parameters.iter().map(|parameter| parameter.name()).collect::<Vec<_>>().join(", ")
}

fn rows() -> impl Iterator<Item = [String; 5]> {
    all().iter().map(|algorithm| {
        [
            algorithm.id.clone(),
            requirement(algorithm),
            parameters(algorithm),
            algorithm.cost.to_owned(),
            algorithm.citation.to_owned(),
        ]
    })
}

const NOTE: &str = "alpha: start-up time of a message; beta: time per element without congestion; delta: time per \
    element over a link; n: elements that one rank contributes or receives, in a broadcast or reduction the whole \
    vector. (*) If P is not a power of two, there are ceil(lg P) stages, and in some of them a rank has two partners.";

const HEAD: [&str; 5] = ["id", "requires", "parameters", "cost", "from"];

/// The table as Markdown.
pub fn markdown() -> String {
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for [id, requires, parameters, cost, citation] in rows() {
        let cost = cost.replace('|', "\\|");
        writeln!(text, "| `{id}` | {requires} | {parameters} | `{cost}` | {citation} |")
            .expect("writing to a string cannot fail");
    }
    writeln!(text, "\n{NOTE}").expect("writing to a string cannot fail");
    text
}

/// The table as columns of plain text, of one operation or of all.
pub fn text(operation: Option<&str>) -> String {
    let chosen = |row: &[String; 5]| operation.is_none_or(|name| row[0].split('/').next() == Some(name));
    let head = HEAD.map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows().filter(chosen)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:width$}  ").expect("writing to a string cannot fail");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    writeln!(text, "\n{NOTE}").expect("writing to a string cannot fail");
    text
}
