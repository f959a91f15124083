//! A scenario in namespaces.
