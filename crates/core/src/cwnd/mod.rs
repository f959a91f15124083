//! The column of the congestion window (paper 2): what a connection starts with, out of what is remembered of its path.

pub mod initcwnd;
