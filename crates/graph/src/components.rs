//! Connected components of an undirected graph: each vertex is labelled with the least global id of its component.
//!
//! - `hooking`: hooking and shortcutting of trees.   [Shiloach, Vishkin 1982; active messages paper, algorithm 4]
//! - `search`: one parallel search finds the giant component, hooking the rest.   [active messages paper, section
//!   6.2.3: PS+SV]
//! - `sampling`: each rank links its local vertices along a sample of its arcs first; messages link the rest.
//!   [Sutton, Ben-Nun, Barak: Optimizing parallel graph connectivity computation via subgraph sampling, IPDPS 2018]

mod hooking;
mod sampling;
mod search;
mod verify;

use crate::{AmConfig, EdgeWeight, Graph, Result};

pub use crate::component_labels::{ComponentLabels, ComponentSummary};

/// An algorithm for connected components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComponentMethod {
    /// Neighbor sampling first (Afforest).
    #[default]
    Sampling,
    /// The giant component by one search, the others by hooking.
    Search,
    /// Hooking and pointer jumping (Shiloach and Vishkin).
    Hooking,
}

impl ComponentMethod {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sampling, Self::Search, Self::Hooking];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Search => "search",
            Self::Hooking => "hooking",
        }
    }
}

/// Options of connected components.
#[derive(Clone, Debug, Default)]
pub struct ComponentOptions {
    /// The algorithm.
    pub method: ComponentMethod,
    /// How active messages are sent.
    pub config: AmConfig,
}

impl<W: EdgeWeight> Graph<W> {
    /// The connected components of an undirected graph. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if the graph is directed, or has split hubs.
    pub fn components(&self) -> Result<ComponentLabels<'_, W>> {
        self.components_with(&ComponentOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// Those of [`components`](Self::components).
    pub fn components_with(&self, options: &ComponentOptions) -> Result<ComponentLabels<'_, W>> {
        self.require_undirected("finding connected components")?;
        match options.method {
            ComponentMethod::Sampling => sampling::run(self, &options.config),
            ComponentMethod::Search => search::run(self, &options.config),
            ComponentMethod::Hooking => hooking::run(self, None, &options.config),
        }
    }
}
