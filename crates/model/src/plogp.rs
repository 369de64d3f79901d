//! P-LogP: latency, and send overhead, receive overhead and gap as measured functions of the message size.
//!
//! They give the cost of a pipeline along a tree, and with it the best tree and segment size can be searched for.
//! [P-LogP paper: Kielmann, Bal, Gorlatch, Verstoep and Hofman 2001, sections 2 and 3]

mod curve;
mod link;
mod link_matrix;
mod measure;
mod measure_config;
mod piecewise_linear;
mod pipeline;
mod samples;
mod search;

pub(crate) use link::LARGE;
pub use link::{PLogP, RoundTrip};
pub use link_matrix::LinkMatrix;
pub use measure::{PLogPMeasurement, Probe, Saturation, measure};
pub use measure_config::MeasureConfig;
pub use piecewise_linear::PiecewiseLinear;
pub use pipeline::{
    ClusterSizes, GatewayLink, PLogPLink, PipelineCost, allgather_cost, gather_cost, max_lan_degree, scatter_cost,
    tree_cost, tree_height, two_layer_cost,
};
pub use search::{
    SegmentPlan, TreeDegrees, candidate_degrees, plan_bcast, plan_bcast_exhaustive, plan_segments,
    plan_segments_exhaustive,
};
