//! Drawings: time lines that an experiment records beside its figures.

use serde::{Deserialize, Serialize};

/// Name of the list of drawings in a document of figures.
pub const DRAWINGS: &str = "drawings";

/// List of drawings in a document of figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Drawings {
    #[serde(default)]
    pub drawings: Vec<Drawing>,
}

/// Time line of one strategy: lanes with bars.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Drawing {
    /// Path of I/O that is drawn.
    pub path: String,
    /// Machine that it was recorded on.
    pub on: String,
    pub profile: String,
    pub strategy: String,
    /// Result, in a few words.
    pub text: String,
    /// Length of every lane.
    pub span_ns: f64,
    /// Names of the lanes.
    pub lanes: Vec<String>,
    pub bars: Vec<Bar>,
    pub marks: Vec<Mark>,
}

/// Part of a lane's time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Bar {
    /// Number of the lane.
    pub lane: usize,
    pub from_ns: f64,
    pub until_ns: f64,
    /// Activity, in words.
    pub kind: String,
    /// Lower end of the bar in lanes, where another one is below it.
    #[serde(default)]
    pub base: f64,
    /// Height of the bar in lanes: a share of time, or of a FIFO.
    pub share: f64,
}

/// Event in a lane.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Mark {
    pub lane: usize,
    pub at_ns: f64,
    pub text: String,
}
