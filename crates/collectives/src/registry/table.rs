//! The table for people.

use std::fmt::Write;

use super::{Algorithm, Networks, all};

/// What is worth saying about an algorithm's requirements.
fn requirement(algorithm: &Algorithm) -> String {
    let requires = &algorithm.requires;
    let mut needs = Vec::new();
    if requires.networks != Networks::Any {
        needs.push(requires.networks.needs());
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

const NOTE: &str = "alpha: a message's start-up; beta: an element's time without congestion; delta: that over a link; n: what \
    one rank gives or gets, of a broadcast or reduction the whole vector. (*) If P is no power of two, there are ceil(lg P) \
    stages, and in some of them a rank has two partners.";

const HEAD: [&str; 5] = ["id", "requires", "parameters", "cost", "from"];

/// As Markdown.
pub fn markdown() -> String {
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for [id, requires, parameters, cost, citation] in rows() {
        let cost = cost.replace('|', "\\|");
        writeln!(text, "| `{id}` | {requires} | {parameters} | `{cost}` | {citation} |").expect("a string takes all");
    }
    writeln!(text, "\n{NOTE}").expect("a string takes all");
    text
}

/// As columns of plain text; of one operation only, if one is named.
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
            write!(line, "{cell:width$}  ").expect("a string takes all");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    writeln!(text, "\n{NOTE}").expect("a string takes all");
    text
}
